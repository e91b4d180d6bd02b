// Runs each plugin's utilities in the pod that is registered for it, or on the host.
//
//   GetExec(plugin).Run ─▶ udevadm and the like ───────────────────────────────────▶ host
//        │
//        ▼ read <kubelet>/plugin-containers/<plugin~>.json, at each run
//     malformed ─▶ FAILED_PRECONDITION, and an event on the node, once for each fault
//     none ────────────────────────────────────────────────────────────────────────▶ host
//     a pod ─▶ ask the runtime for that pod's running container
//                none (a file that an older pod left) ─────────────────────────────▶ host
//                found ─▶ ExecSync ─▶ gone before it ran: look once more, from the top
//                                └──▶ its result, or its failure: never run again elsewhere
//
// UNAVAILABLE: the runtime does not answer, so it is not known whether that pod runs. Thread-safe;
// runs share only the channel to the runtime.
#pragma once

#include <memory>

#include "base/status.h"
#include "volume/host_way.h"
#include "volume/utilities.h"

namespace berth::volume {

// Makes the folder of registrations if it is missing. INVALID_ARGUMENT: the endpoint is malformed.
base::StatusOr<std::unique_ptr<Utilities>> NewUtilityRouter(const UtilitySurroundings& around,
                                                            const HostWay& host = {});

}  // namespace berth::volume
