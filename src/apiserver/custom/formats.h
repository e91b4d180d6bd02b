// The string formats that a schema may require.
#pragma once

#include <string_view>

namespace berth::apiserver {

// Whether `text` has `format`. True for every text if Kubernetes does not know the format.
bool HasFormat(std::string_view format, std::string_view text);

}  // namespace berth::apiserver
