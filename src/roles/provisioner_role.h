// The role "provisioner": makes volumes for claims and, if asked to, publishes the capacity of the
// driver.
#pragma once

#include <memory>

#include "roles/roles.h"

namespace berth::roles {

std::unique_ptr<controllers::Controller> MakeProvisionerRole(const controllers::Context& context,
                                                             controllers::DriverConnection* driver,
                                                             const RoleSettings& settings);

}  // namespace berth::roles
