// The formats of strings that a schema may ask for.
#pragma once

#include <string_view>

namespace berth::apiserver {

// Whether `text` is of `format`. A format that Kubernetes does not know holds for any text.
bool HasFormat(std::string_view format, std::string_view text);

}  // namespace berth::apiserver
