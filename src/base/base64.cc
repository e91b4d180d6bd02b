#include "base/base64.h"

#include <cstdint>

namespace berth::base {
namespace {

// The six bits that a character stands for, or -1.
int SixBits(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  if (c == '+') return 62;
  return c == '/' ? 63 : -1;
}

}  // namespace

std::optional<std::string> DecodeBase64(std::string_view text) {
  std::string out;
  out.reserve(text.size() / 4 * 3);
  uint32_t group = 0;
  int characters = 0;
  int padding = 0;
  for (const char c : text) {
    if (c == '\n' || c == '\r') continue;
    if (c == '=') {
      // Two characters at least stand before the padding, which ends the text.
      if (characters % 4 + padding < 2 || ++padding > 2) return std::nullopt;
      continue;
    }
    const int bits = SixBits(c);
    if (bits < 0 || padding > 0) return std::nullopt;
    group = group << 6 | static_cast<uint32_t>(bits);
    if (++characters % 4 == 0) {
      out += static_cast<char>(group >> 16 & 0xff);
      out += static_cast<char>(group >> 8 & 0xff);
      out += static_cast<char>(group & 0xff);
    }
  }
  if ((characters + padding) % 4 != 0) return std::nullopt;
  if (padding == 1) {
    out += static_cast<char>(group >> 10 & 0xff);
    out += static_cast<char>(group >> 2 & 0xff);
  } else if (padding == 2) {
    out += static_cast<char>(group >> 4 & 0xff);
  }
  return out;
}

}  // namespace berth::base
