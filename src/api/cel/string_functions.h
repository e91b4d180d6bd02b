// The functions of CEL that work on strings alone, regular expressions among them. Those that also
// take lists, as indexOf, are in functions.cc.
#pragma once

#include <span>

#include "api/cel/functions.h"

namespace berth::api::cel {

// The rows of the strings' functions, which FindFunction searches with its own.
std::span<const Function> StringFunctions();

}  // namespace berth::api::cel
