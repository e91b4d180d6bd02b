// Compares paths by their text only. Pure functions.
#pragma once

#include <string>
#include <string_view>

namespace berth::crust {

// Returns the path without ".", "..", double slashes and a trailing slash. Symlinks are not
// resolved.
std::string PlainPath(std::string_view path);

// Whether `source`, the source of a container's mount, is at or below `target`. Sets `sub_path` to
// the rest of the path, "" for the volume itself; if the result is false, its value has no meaning.
// `source` is a result of PlainPath.
bool IsBelow(std::string_view source, std::string_view target, std::string_view& sub_path);

}  // namespace berth::crust
