// The type and value of a plain (unquoted) YAML scalar. Reading uses it. Writing uses it, too,
// because it must quote a string that would be read as another type.
#pragma once

#include <string_view>

#include "base/json.h"

namespace berth::api {

// Returns null, a boolean, a number or a string. Infinities and NaN are strings, because JSON lacks
// them.
base::Json ResolvePlainScalar(std::string_view text);

}  // namespace berth::api
