// The container runtime's ids. They have different types, so that code that uses both does not mix
// them up.
#pragma once

#include "base/id.h"

namespace berth::rpc {

using SandboxId = base::Id<struct SandboxIdKind>;      // PodSandbox.id
using ContainerId = base::Id<struct ContainerIdKind>;  // Container.id

}  // namespace berth::rpc
