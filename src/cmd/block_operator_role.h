// The role "block-operator", with back ends as this machine reaches them.
#pragma once

#include <memory>

#include "cmd/roles.h"

namespace berth::cmd {

std::unique_ptr<controllers::Controller> MakeBlockOperatorRole(
    const controllers::Context& context, controllers::DriverConnection* driver,
    const RoleSettings& settings);

}  // namespace berth::cmd
