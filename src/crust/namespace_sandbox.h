// Sandboxes whose containers are processes of this host. The volumes of a sandbox are in a separate
// mount namespace (holder.h), and each container gets copies of the mounts.
//
//   fsmount, fsGroup      ──▶  holder /<name>        ──▶  a copy per container
//   a mount in no table        one namespace a sandbox    berth-oci puts it into the container's
#pragma once

#include <memory>
#include <string>

#include "crust/sandbox.h"
#include "platform/mounts/mounter.h"
#include "platform/processes/exec.h"

namespace berth::crust {

// Absolute; the first two are made if missing.
struct NamespaceFolders {
  std::string pins;       // for the namespaces
  std::string utilities;  // where mount utilities mount
  std::string kubelet;    // a share's server must not keep mounts below it
};

// Borrows `mounter` and `exec`.
base::StatusOr<std::unique_ptr<SandboxKind>> NewNamespaceSandboxes(platform::Mounter& mounter,
                                                                   platform::Exec& exec,
                                                                   const NamespaceFolders& folders);

}  // namespace berth::crust
