// What is wrong with an expression before it ever runs: fields that the schema does not have,
// operators between kinds that have none, a result of the wrong kind.
#pragma once

#include <string_view>

#include "api/cel/syntax.h"

namespace berth::api::cel {

// INVALID_ARGUMENT as Parse. Where nothing is known of a value (int-or-string, a conditional of two
// kinds) anything goes.
base::Status Check(std::string_view text, const Syntax& syntax, const Schema* self, Kind wanted,
                   bool optional_old_self);

}  // namespace berth::api::cel
