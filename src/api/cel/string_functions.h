// The functions of CEL that take only strings, also as regular expressions. Functions that also
// take lists, such as indexOf, are in functions.cc.
#pragma once

#include <span>

#include "api/cel/functions.h"

namespace berth::api::cel {

// The table of these functions, for FindFunction.
std::span<const Function> StringFunctions();

}  // namespace berth::api::cel
