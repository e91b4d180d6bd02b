// What this host shows of Kata's sandboxes. No program calls the handler when a sandbox begins or
// ends, because Kata and containerd are not changed:
//
//   <bundles>/<id>/config.json   containerd's: the pod's UID, and whether it is a sandbox
//   <run>/vc/sbs/<id>/           Kata's Go runtime; has the shim's socket
//   <run>/kata/<id>/             Kata's Rust runtime (runtime-rs); likewise
//
// containerd removes the bundle when the sandbox has ended. Thread-safe.
#pragma once

#include <string>

#include "api/kinds/object_ids.h"
#include "base/status.h"
#include "rpc/cri_ids.h"

namespace berth::crust::kata {

// Which of Kata's two runtimes runs a sandbox.
enum class KataRuntime { kGo, kRust };

struct KataSandbox {
  api::PodUid pod;
  KataRuntime runtime = KataRuntime::kGo;
};

class KataSandboxes {
 public:
  KataSandboxes(std::string run, std::string bundles)
      : run_(std::move(run)), bundles_(std::move(bundles)) {}

  // NOT_FOUND: there is no sandbox of Kata with the id. INTERNAL: its config.json cannot be read.
  base::StatusOr<KataSandbox> FindSandbox(const rpc::SandboxId& id) const;
  // Whether the sandbox's bundle is gone. False if that cannot be found out.
  bool IsGone(const rpc::SandboxId& id) const;
  // Whether the Rust runtime runs it, and not the Go runtime.
  bool IsOfRust(const rpc::SandboxId& id) const;
  // The socket of the shim of a sandbox that the Go runtime runs.
  std::string ShimSocket(const rpc::SandboxId& id) const;
  // Where DirectVolumes are.
  std::string VolumeFolder() const { return run_ + "/kata-containers/shared/direct-volumes"; }

 private:
  std::string GoFolder(const rpc::SandboxId& id) const { return run_ + "/vc/sbs/" + id.text(); }
  std::string RustFolder(const rpc::SandboxId& id) const { return run_ + "/kata/" + id.text(); }

  const std::string run_;
  const std::string bundles_;
};

}  // namespace berth::crust::kata
