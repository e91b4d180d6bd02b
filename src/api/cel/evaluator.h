// Runs the tree of an expression.
#pragma once

#include <vector>

#include "api/cel/syntax.h"

namespace berth::api::cel {

// `variables` has the tree's slots. Errors as Program::Run.
base::StatusOr<Value> Evaluate(const Node& root, std::vector<Value>& variables, Budget& budget);

}  // namespace berth::api::cel
