// The role "block-operator", with back ends that it uses from this machine.
#pragma once

#include <memory>

#include "roles/roles.h"

namespace berth::roles {

std::unique_ptr<controllers::Controller> MakeBlockOperatorRole(
    const controllers::Context& context, controllers::DriverConnection* driver,
    const RoleSettings& settings);

}  // namespace berth::roles
