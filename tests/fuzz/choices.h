// What the fuzzers of rules share: an input that decides, and a promise that is checked.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/json.h"

namespace berth::fuzz {

// What is tried, for the report of a failure.
inline base::Json trying;

#define CHECK_THAT(holds)                                      \
  if (!(holds)) {                                              \
    std::fprintf(stderr, "does not hold: %s\nof %s\n", #holds, \
                 ::berth::fuzz::trying.dump().c_str());        \
    std::abort();                                              \
  }

// Decisions, a byte of the input each; 0 when it is used up.
class Choices {
 public:
  explicit Choices(std::string_view bytes) : bytes_(bytes) {}

  uint8_t Choose(uint8_t below) {
    if (bytes_.empty()) return 0;
    const auto byte = static_cast<uint8_t>(bytes_.front());
    bytes_.remove_prefix(1);
    return byte % below;
  }
  // One of a few, so that they meet.
  std::string Word() { return std::string(1, static_cast<char>('a' + Choose(3))); }

 private:
  std::string_view bytes_;
};

}  // namespace berth::fuzz
