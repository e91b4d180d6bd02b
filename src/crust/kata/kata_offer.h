// What Kata can do, and what it cannot (docs/adr/0045). Pure functions.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "crust/kata/kata_sandboxes.h"
#include "crust/mount_plan.h"
#include "crust/requests.h"

namespace berth::crust::kata {

// Returns the capabilities that are offered by default: those that are true of each sandbox of this
// runtime.
std::vector<wire::RuntimeCapability::RPC::Type> ListCapabilities(KataRuntime runtime);

// Returns the capabilities of these names. INVALID_ARGUMENT: there is no such capability, or none
// of Kata's runtimes has it.
base::StatusOr<std::vector<wire::RuntimeCapability::RPC::Type>> ParseKataCapabilities(
    const std::vector<std::string>& names);

// INVALID_ARGUMENT: it is neither "go" nor "rust".
base::StatusOr<KataRuntime> ParseRuntime(std::string_view name);

// Checks whether Kata can do what a publish asks for, besides what is offered.
// FAILED_PRECONDITION: it cannot.
base::Status CheckKataCanMount(const wire::RuntimePublishVolumeRequest& request,
                               const MountPlan& plan, KataRuntime runtime);

}  // namespace berth::crust::kata
