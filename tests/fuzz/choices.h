// What several fuzzers share: choices that the input makes, and a check that prints what was tried.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/json.h"

namespace berth::fuzz {

// What is being tried. CHECK_THAT prints it when a check fails.
inline base::Json trying;

#define CHECK_THAT(holds)                                      \
  if (!(holds)) {                                              \
    std::fprintf(stderr, "does not hold: %s\nof %s\n", #holds, \
                 ::berth::fuzz::trying.dump().c_str());        \
    std::abort();                                              \
  }

// Makes choices, each by one byte of the input. When the input is used up, each choice is 0.
class Choices {
 public:
  explicit Choices(std::string_view bytes) : bytes_(bytes) {}

  uint8_t Choose(uint8_t below) {
    if (bytes_.empty()) return 0;
    const auto byte = static_cast<uint8_t>(bytes_.front());
    bytes_.remove_prefix(1);
    return byte % below;
  }
  // One of three words, so that the same word often comes again.
  std::string Word() { return std::string(1, static_cast<char>('a' + Choose(3))); }

 private:
  std::string_view bytes_;
};

}  // namespace berth::fuzz
