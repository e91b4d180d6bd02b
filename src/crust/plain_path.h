// Paths by their text alone. Pure.
#pragma once

#include <string>
#include <string_view>

namespace berth::crust {

// Without ".", "..", doubled and trailing slashes.
std::string PlainPath(std::string_view path);

// The sub path that `source`, of a container's mount, has below `target`: "" for the volume itself.
// False: it is elsewhere. `source` is in its plainest spelling (PlainPath).
bool IsBelow(std::string_view source, std::string_view target, std::string_view& sub_path);

}  // namespace berth::crust
