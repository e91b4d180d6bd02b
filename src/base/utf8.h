// Where a text of UTF-8 may be cut.
#pragma once

#include <string_view>

namespace berth::base {

// The end of the longest beginning of `text` that has at most `bytes` bytes and cuts no character
// in two.
inline size_t CharacterEnd(std::string_view text, size_t bytes) {
  if (text.size() <= bytes) return text.size();
  while (bytes > 0 && (static_cast<unsigned char>(text[bytes]) & 0xC0) == 0x80) --bytes;
  return bytes;
}

}  // namespace berth::base
