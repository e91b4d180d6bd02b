#include "base/base64.h"

#include <array>
#include <cstdint>

namespace berth::base {
namespace {

constexpr char kStandard[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr char kUrl[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

std::string Encode(std::string_view bytes, const char* alphabet, bool pad) {
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t n = std::min<size_t>(3, bytes.size() - i);
    uint32_t group = 0;
    for (size_t k = 0; k < 3; ++k) {
      group = group << 8 | (k < n ? static_cast<uint8_t>(bytes[i + k]) : 0u);
    }
    for (size_t k = 0; k <= n; ++k) out += alphabet[group >> (18 - 6 * k) & 63];
    if (pad) out.append(3 - n, '=');
  }
  return out;
}

std::optional<std::string> Decode(std::string_view text, std::string_view alphabet, bool padded) {
  std::string digits;
  digits.reserve(text.size());
  for (const char c : text) {
    if (c != '\n' && c != '\r') digits += c;
  }
  if (padded) {
    if (digits.size() % 4 != 0) return std::nullopt;
    for (int k = 0; k < 2 && !digits.empty() && digits.back() == '='; ++k) digits.pop_back();
  }
  if (digits.size() % 4 == 1) return std::nullopt;
  std::array<int, 256> values;
  values.fill(-1);
  for (size_t i = 0; i < alphabet.size(); ++i) {
    values[static_cast<uint8_t>(alphabet[i])] = static_cast<int>(i);
  }
  std::string out;
  out.reserve(digits.size() * 3 / 4);
  uint32_t bits = 0;
  int count = 0;
  for (const char c : digits) {
    const int value = values[static_cast<uint8_t>(c)];
    if (value < 0) return std::nullopt;
    bits = bits << 6 | static_cast<uint32_t>(value);
    count += 6;
    if (count >= 8) {
      count -= 8;
      out += static_cast<char>(bits >> count & 0xff);
    }
  }
  return out;
}

}  // namespace

std::string EncodeBase64(std::string_view bytes) { return Encode(bytes, kStandard, true); }
std::string EncodeBase64Url(std::string_view bytes) { return Encode(bytes, kUrl, false); }
std::optional<std::string> DecodeBase64(std::string_view text) {
  return Decode(text, kStandard, true);
}
std::optional<std::string> DecodeBase64Url(std::string_view text) {
  return Decode(text, kUrl, false);
}

}  // namespace berth::base
