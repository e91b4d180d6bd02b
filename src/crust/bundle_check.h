// Finds sandboxes that have ended although berth-oci did not report it, because the runtime was
// killed, or deleted the sandbox while no handler ran. Such a sandbox's bundle is gone; or it has
// no volume, and its pod's plan is gone. The second happens if it never had a volume, or if the
// volumes were those of its pod (pods/pod_volumes.h), because they leave the pod's sandboxes with
// the pod.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "crust/sandbox_table.h"

namespace berth::crust {

// Whether the path leads to a folder. False if that cannot be found out.
bool IsFolder(const std::string& path);

// Checks whether the sandbox still exists. Returns the time until the next check; none: the sandbox
// has ended, because this check and the one before did not find it. The caller holds the entry, in
// which the result of the last check is kept. The time between two checks is twice the time before,
// at least half a second and at most `check_interval`; it begins with Entry::wait. `run_folder`
// holds the pods' plans (base/ipc/crust_call.h).
std::optional<std::chrono::milliseconds> CheckSandboxExists(
    SandboxTable::Entry& entry, const std::string& run_folder,
    std::chrono::milliseconds check_interval);

}  // namespace berth::crust
