// Sandboxes whose containers are processes of this host: their volumes are in a mount namespace of
// their own (holder.h), from which each container gets copies of the mounts.
//
//   fsmount, fsGroup      ──▶  holder /<name>        ──▶  a copy per container
//   a mount in no table        one namespace a sandbox    berth-oci puts it into the container's
#pragma once

#include <memory>
#include <string>

#include "crust/sandbox.h"
#include "platform/mounter.h"

namespace berth::crust {

// `pins` is a folder for the namespaces, made if missing. Borrows `mounter`.
base::StatusOr<std::unique_ptr<SandboxKind>> NewNamespaceSandboxes(platform::Mounter& mounter,
                                                                   std::string pins);

}  // namespace berth::crust
