// What a plain (unquoted) YAML scalar stands for. Shared by reading, and by writing, which must
// quote a string that would read as something else.
#pragma once

#include <string_view>

#include "base/json.h"

namespace berth::api {

// null, a boolean, a number or a string. Infinities and NaN, which JSON lacks, stay strings.
base::Json ResolvePlainScalar(std::string_view text);

}  // namespace berth::api
