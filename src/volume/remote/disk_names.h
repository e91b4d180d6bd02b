// Checks parts of a volume source that become arguments of a utility.
#pragma once

#include <algorithm>
#include <cctype>
#include <string_view>

#include "base/log.h"
#include "base/status.h"

namespace berth::volume {

// INVALID_ARGUMENT, naming `field`: `name` is empty, or has a character that a utility or a path
// could read as something else. `also` are characters that are right besides letters, digits and
// "-._".
inline base::Status CheckPlainName(std::string_view field, std::string_view name,
                                   std::string_view also = "") {
  constexpr size_t kLongest = 255;  // bytes
  const bool plain = !name.empty() && name.size() <= kLongest && name.front() != '-' &&
                     name.front() != '.' && std::all_of(name.begin(), name.end(), [&](char c) {
                       return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
                              std::string_view("-._").find(c) != std::string_view::npos ||
                              also.find(c) != std::string_view::npos;
                     });
  if (plain) return base::OkStatus();
  return base::Error(base::StatusCode::kInvalidArgument, "{} {} is not a plain name", field,
                     base::Quote(name));
}

}  // namespace berth::volume
