// Evaluates the syntax tree of an expression.
#pragma once

#include <vector>

#include "api/cel/syntax.h"

namespace berth::api::cel {

// `variables` has Syntax::slots values, of which self and oldSelf are set. Errors as Program::Run.
base::StatusOr<Value> Evaluate(const Node& root, std::vector<Value>& variables, Budget& budget);

}  // namespace berth::api::cel
