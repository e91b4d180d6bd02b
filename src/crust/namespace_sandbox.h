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

// Absolute paths. The first two are made if they are missing.
struct NamespaceFolders {
  std::string pins;       // the sandboxes' namespaces are bound here
  std::string utilities;  // where mount utilities mount
  std::string kubelet;    // a share's server process gets no copy of the mounts below it
};

// Removes what an earlier process left in the first two folders when it died. Borrows `mounter` and
// `exec`, which must outlive the result.
base::StatusOr<std::unique_ptr<SandboxKind>> NewNamespaceSandboxes(platform::Mounter& mounter,
                                                                   platform::Exec& exec,
                                                                   const NamespaceFolders& folders);

}  // namespace berth::crust
