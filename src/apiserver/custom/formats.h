// The string formats that a schema may require.
#pragma once

#include <string_view>

namespace berth::apiserver {

// Whether `text` has `format`. Any text has a format that Kubernetes does not know.
bool HasFormat(std::string_view format, std::string_view text);

}  // namespace berth::apiserver
