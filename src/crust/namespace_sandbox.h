// Sandboxes whose containers are processes of this host. The volumes of a sandbox are in a separate
// mount namespace (holder.h), and each container gets copies of the mounts.
//
//   fsmount, fsGroup      ──▶  holder /<name>        ──▶  a copy per container
//   a mount in no table        one namespace a sandbox    berth-oci puts it into the container's
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "crust/sandbox.h"
#include "platform/mounts/mounter.h"
#include "platform/processes/exec.h"

namespace berth::crust {

// Absolute paths. The first two are made if they are missing.
struct NamespaceFolders {
  std::string pins;       // the sandboxes' namespaces are bound here
  std::string utilities;  // where mount utilities mount
  std::string kubelet;    // a share's server process gets no copy of the mounts below it
};

// How long a device or a server may take before a person is told that it stalls.
struct StallLimits {
  // A write of a volume's root folder, or a read of a device that is only read. Seconds are normal
  // under load.
  std::chrono::milliseconds write{30'000};
  // An unmount, which first writes what is only in memory. A call waits for this long, for the
  // pod's and the sandbox's other calls before (HandlerOptions::patience), and for a busy device
  // after it (free_within), and the sum is shorter than the minute that the node agent waits, so
  // that the agent learns why. The unmount goes on, and a repeated call waits for its end.
  std::chrono::milliseconds unmount{25'000};
};

// Removes what an earlier process left in the first two folders when it died. Borrows `mounter` and
// `exec`, which must outlive the result.
base::StatusOr<std::unique_ptr<SandboxKind>> NewNamespaceSandboxes(platform::Mounter& mounter,
                                                                   platform::Exec& exec,
                                                                   const NamespaceFolders& folders,
                                                                   const StallLimits& limits = {});

}  // namespace berth::crust
