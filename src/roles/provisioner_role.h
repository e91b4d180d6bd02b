// The role "provisioner": provisions volumes for claims and, with RoleSettings::enable_capacity,
// publishes the driver's capacity.
#pragma once

#include <memory>

#include "roles/roles.h"

namespace berth::roles {

// Makes the role's controller. `driver` is borrowed, must not be null, and must outlive it.
std::unique_ptr<controllers::Controller> MakeProvisionerRole(const controllers::Context& context,
                                                             controllers::DriverConnection* driver,
                                                             const RoleSettings& settings);

}  // namespace berth::roles
