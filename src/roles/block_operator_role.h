// The role "block-operator". It opens the back ends of storage clusters on this machine.
#pragma once

#include <memory>

#include "roles/roles.h"

namespace berth::roles {

// Makes the role's controller. `driver` is ignored, because it is a role of the cluster. What
// `settings.block_operator` leaves empty comes from the environment: agents.ns from POD_NAMESPACE
// (or else "default"), and agents.own_pod from POD_NAME.
std::unique_ptr<controllers::Controller> MakeBlockOperatorRole(
    const controllers::Context& context, controllers::DriverConnection* driver,
    const RoleSettings& settings);

}  // namespace berth::roles
