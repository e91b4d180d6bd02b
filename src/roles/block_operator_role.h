// The role "block-operator". It opens the back ends of storage clusters on this machine.
#pragma once

#include <memory>
#include <string_view>

#include "roles/roles.h"

namespace berth::roles {

// The plugin as which a pod with the utilities of back ends (berth-rbd, berth-iscsi) registers on
// the operator's node. It has them at the same paths as the operator.
inline constexpr std::string_view kBlockPlugin = "block.berth.dev";

// Makes the role's controller. `driver` is ignored, because it is a role of the cluster. What
// `settings.block_operator` leaves empty comes from the environment: agents.ns from POD_NAMESPACE
// (or else "default"), and agents.own_pod from POD_NAME.
std::unique_ptr<controllers::Controller> MakeBlockOperatorRole(
    const controllers::Context& context, controllers::DriverConnection* driver,
    const RoleSettings& settings);

}  // namespace berth::roles
