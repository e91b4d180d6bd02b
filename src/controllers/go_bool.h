// How the Go programs read a boolean of a flag or an annotation.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

namespace berth::controllers {

// Whether Go's strconv.ParseBool gives true.
inline bool IsGoTrue(std::string_view text) {
  constexpr std::array<std::string_view, 6> kTrue = {"1", "t", "T", "true", "TRUE", "True"};
  return std::ranges::find(kTrue, text) != kTrue.end();
}

}  // namespace berth::controllers
