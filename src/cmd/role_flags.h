// The flags that set a role's own options (roles/roles.h, RoleSettings), with the names and
// defaults of the Go program that does the role's work. Pure, but for the environment variable
// NODE_NAME, which a flag --node-deployment reads when it is applied.
#pragma once

#include <string_view>
#include <vector>

#include "cmd/go_flags.h"

namespace berth::cmd {

// Empty for a role without options of its own, and for a name that is no role's.
std::vector<GoFlag> RoleFlags(std::string_view role);

}  // namespace berth::cmd
