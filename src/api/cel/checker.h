// Finds the faults of an expression before it runs: fields that the schema does not have, operators
// on kinds that lack them, a result of the wrong kind.
#pragma once

#include <string_view>

#include "api/cel/syntax.h"

namespace berth::api::cel {

// INVALID_ARGUMENT as Parse. A value of unknown kind (int-or-string, a conditional of two kinds)
// may be used in any way.
base::Status Check(std::string_view text, const Syntax& syntax, const Schema* self, Kind wanted,
                   bool optional_old_self);

}  // namespace berth::api::cel
