// The flags that set a role's own options (roles/roles.h, RoleSettings), with the names and
// defaults of the Go program that does the role's work. The function is pure, but a flag
// --node-deployment reads the environment variable NODE_NAME when it is applied.
#pragma once

#include <string_view>
#include <vector>

#include "cmd/go_flags.h"

namespace berth::cmd {

// Returns no flags for a role without options of its own, and for an unknown name.
std::vector<GoFlag> RoleFlags(std::string_view role);

}  // namespace berth::cmd
