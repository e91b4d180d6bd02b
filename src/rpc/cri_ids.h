// The container runtime's ids, which must not be mixed up where both meet.
#pragma once

#include "base/id.h"

namespace berth::rpc {

using SandboxId = base::Id<struct SandboxIdKind>;      // PodSandbox.id
using ContainerId = base::Id<struct ContainerIdKind>;  // Container.id

}  // namespace berth::rpc
