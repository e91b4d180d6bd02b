// Reads, writes and cuts UTF-8. The static programs use it, too.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace berth::base {

// Whether a byte of UTF-8 is not the first one of its character.
inline bool ContinuesCharacter(char byte) {
  return (static_cast<unsigned char>(byte) & 0xc0) == 0x80;
}

// Returns how many bytes the first character of `text` has (1 to 4). 0: `text` does not begin with
// a character, because a byte is missing or not allowed there, or because the bytes encode an
// overlong form, a surrogate, or a code beyond U+10FFFF.
inline size_t Utf8Length(std::string_view text) {
  if (text.empty()) return 0;
  const auto at = [text](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = at(0);
  if (first < 0x80) return 1;
  const size_t length = first >= 0xc2 && first < 0xe0   ? 2
                        : first >= 0xe0 && first < 0xf0 ? 3
                        : first >= 0xf0 && first < 0xf5 ? 4
                                                        : 0;
  if (length == 0 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if (!ContinuesCharacter(text[i])) return 0;
  }
  if ((first == 0xe0 && at(1) < 0xa0) || (first == 0xed && at(1) >= 0xa0) ||
      (first == 0xf0 && at(1) < 0x90) || (first == 0xf4 && at(1) >= 0x90)) {
    return 0;
  }
  return length;
}

// Whether all of `text` is UTF-8 without surrogates and overlong forms.
inline bool IsUtf8(std::string_view text) {
  while (!text.empty()) {
    const size_t length = Utf8Length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

// Counts the characters of `text`: all bytes except those that continue a character. In valid UTF-8
// that is the number of code points.
inline size_t CountCharacters(std::string_view text) {
  return text.size() - static_cast<size_t>(std::ranges::count_if(text, ContinuesCharacter));
}

// Appends the character `code`, which must not be a surrogate or above U+10FFFF.
inline void AppendUtf8(std::string& out, uint32_t code) {
  const auto tail = [&](int shift) { out += static_cast<char>(0x80 | ((code >> shift) & 0x3f)); };
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xc0 | (code >> 6));
    tail(0);
  } else if (code < 0x10000) {
    out += static_cast<char>(0xe0 | (code >> 12));
    tail(6);
    tail(0);
  } else {
    out += static_cast<char>(0xf0 | (code >> 18));
    tail(12);
    tail(6);
    tail(0);
  }
}

// The length of the longest prefix of `text` that has at most `bytes` bytes and does not end within
// a character.
inline size_t CharacterEnd(std::string_view text, size_t bytes) {
  if (text.size() <= bytes) return text.size();
  while (bytes > 0 && ContinuesCharacter(text[bytes])) --bytes;
  return bytes;
}

// Returns `text`, for a message: cut to `bytes` and with "..." behind them if it is longer.
inline std::string Shortened(std::string_view text, size_t bytes) {
  if (text.size() <= bytes + 3) return std::string(text);
  return std::string(text.substr(0, CharacterEnd(text, bytes))) + "...";
}

}  // namespace berth::base
