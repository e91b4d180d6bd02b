// The rights that deploy/csi and deploy/block-agent give to each role, so that tests of controllers
// run with no others.
#pragma once

#include <span>
#include <string_view>

#include "base/json.h"

namespace berth::controllers {

// The texts of the files of rights below deploy, YAML.
std::span<const std::string_view> RoleManifests();

// The rules of the Roles and ClusterRoles called "csi-`role`" or "berth-`role`"; empty: nobody is
// told of it.
base::Json RulesOf(std::string_view role);

}  // namespace berth::controllers
