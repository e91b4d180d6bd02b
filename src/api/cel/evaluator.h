// Evaluates the syntax tree of an expression.
#pragma once

#include <vector>

#include "api/cel/syntax.h"

namespace berth::api::cel {

// Evaluates the tree below `root`. `variables` has Syntax::slots values, of which the caller has
// set self and oldSelf. Errors are those of Program::Run (program.h).
base::StatusOr<Value> Evaluate(const Node& root, std::vector<Value>& variables, Budget& budget);

}  // namespace berth::api::cel
