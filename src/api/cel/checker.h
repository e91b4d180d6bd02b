// Finds the mistakes of an expression before it runs: fields that the schema does not have,
// operators on kinds without these operators, a result of the wrong kind.
#pragma once

#include <string_view>

#include "api/cel/syntax.h"

namespace berth::api::cel {

// `text` is that of `syntax`; the other parameters are those of Program::Compile. INVALID_ARGUMENT
// as ParseSyntax: the expression has a mistake. A value of unknown kind (int-or-string, a
// conditional of two kinds) may be used in any way.
base::Status CheckExpression(std::string_view text, const Syntax& syntax, const Schema* self,
                             Kind wanted, bool optional_old_self);

}  // namespace berth::api::cel
