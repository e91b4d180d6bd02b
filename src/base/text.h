// Small helpers for text.
#pragma once

#include <string_view>

namespace berth::base {

// Without the white space (blank, tab, line ends) at both ends.
inline std::string_view Trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

}  // namespace berth::base
