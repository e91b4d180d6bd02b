// Finds out what a plain (unquoted) YAML scalar means. Reading uses it, and so does writing, which
// must quote a string that would be read as something else.
#pragma once

#include <string_view>

#include "base/json.h"

namespace berth::api {

// null, a boolean, a number or a string. Infinities and NaN, which JSON lacks, stay strings.
base::Json ResolvePlainScalar(std::string_view text);

}  // namespace berth::api
