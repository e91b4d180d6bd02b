// The rights that deploy/csi and deploy/block-agent give to each role. Tests of controllers run
// with these rights only.
#pragma once

#include <span>
#include <string_view>

#include "base/json.h"

namespace berth::controllers {

// The texts of the YAML files below deploy that hold the rights.
std::span<const std::string_view> RoleManifests();

// The rules of the Roles and ClusterRoles called "csi-`role`" or "berth-`role`". They are empty if
// no file has such a role.
base::Json RulesOf(std::string_view role);

}  // namespace berth::controllers
