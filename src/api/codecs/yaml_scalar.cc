#include "api/codecs/yaml_scalar.h"

#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <string>

namespace berth::api {
namespace {

using base::Json;

bool IsOneOf(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

// Parses decimal numbers, 0x, 0o, 0b and the octal 0644, with '_' between digits, within int64 or
// uint64.
std::optional<Json> ParseInteger(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  std::string digits;
  for (const char c : text) {
    if (c != '_') digits += c;
  }
  if (digits.empty() || text.starts_with('_')) return std::nullopt;
  int base = 10;
  size_t skip = 0;
  if (digits.size() > 1 && digits[0] == '0') {
    const char mark = digits[1];
    base = mark == 'x' || mark == 'X' ? 16 : mark == 'b' || mark == 'B' ? 2 : 8;
    skip = base != 8 || mark == 'o' || mark == 'O' ? 2 : 1;
  }
  if (skip == digits.size()) return std::nullopt;
  uint64_t value = 0;
  const char* end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data() + skip, end, value, base);
  if (error != std::errc() || stop != end) return std::nullopt;
  constexpr auto kMax = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  if (!negative) return value <= kMax ? Json(static_cast<int64_t>(value)) : Json(value);
  if (value > kMax + 1) return std::nullopt;
  return Json(static_cast<int64_t>(~value + 1));
}

// Whether `text` matches [-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?
bool IsFloat(std::string_view text) {
  size_t at = 0;
  const auto digits = [&] {
    const size_t begin = at;
    while (at < text.size() && text[at] >= '0' && text[at] <= '9') ++at;
    return at - begin;
  };
  if (at < text.size() && (text[at] == '-' || text[at] == '+')) ++at;
  const size_t whole = digits();
  if (at < text.size() && text[at] == '.') {
    ++at;
    if (digits() + whole == 0) return false;
  } else if (whole == 0) {
    return false;
  }
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    ++at;
    if (at < text.size() && (text[at] == '-' || text[at] == '+')) ++at;
    if (digits() == 0) return false;
  }
  return at == text.size();
}

std::optional<Json> ParseFloat(std::string_view text) {
  if (!IsFloat(text)) return std::nullopt;
  if (text.starts_with('+')) text.remove_prefix(1);
  double value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || stop != text.data() + text.size()) return std::nullopt;
  // A whole number becomes an integer, because JSON has only one kind of number: an integer field
  // of the API accepts 1e3.
  constexpr double kExact = 9007199254740992.0;
  if (std::trunc(value) == value && std::fabs(value) <= kExact)
    return Json(static_cast<int64_t>(value));
  return Json(value);
}

}  // namespace

Json ResolvePlainScalar(std::string_view text) {
  if (IsOneOf(text, {"", "~", "null", "Null", "NULL"})) return nullptr;
  if (IsOneOf(text, {"true", "True", "TRUE", "y", "Y", "yes", "Yes", "YES", "on", "On", "ON"}))
    return true;
  if (IsOneOf(text, {"false", "False", "FALSE", "n", "N", "no", "No", "NO", "off", "Off", "OFF"}))
    return false;
  const char first = text.front();
  if ((first >= '0' && first <= '9') || first == '-' || first == '+' || first == '.') {
    if (auto value = ParseInteger(text)) return *std::move(value);
    if (auto value = ParseFloat(text)) return *std::move(value);
  }
  return std::string(text);
}

}  // namespace berth::api
