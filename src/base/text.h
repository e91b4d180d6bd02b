// Small helpers for text, and for paths as text. The static programs use them, too.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/utf8.h"

namespace berth::base {

// Returns `text` without the white space (blank, tab, line ends) at both ends.
inline std::string_view Trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

// Returns `path` without slashes at its end; "/" stays "/".
inline std::string_view TrimSlashes(std::string_view path) {
  while (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  return path;
}

// Returns the text after the last slash: "c" for "/a/b/c" and for "c".
inline std::string_view FileNameOf(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

// Returns the text before the last slash: "/a/b" for "/a/b/c", "/" for "/a", "." for "a".
inline std::string_view FolderOf(std::string_view path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string_view::npos) return ".";
  return path.substr(0, slash == 0 ? 1 : slash);
}

// Returns the value of a hexadecimal digit, -1 if `c` is none.
inline int HexDigitValue(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Returns the byte that the percent escape ("%2F") at the front of `text` stands for; nullopt if
// there is no whole one. This is the only place that decodes percent escapes. Which bytes may be
// escaped, the caller decides: "%00" is decoded, too.
inline std::optional<char> DecodePercentEscape(std::string_view text) {
  if (text.size() < 3 || text[0] != '%') return std::nullopt;
  const int high = HexDigitValue(text[1]);
  const int low = HexDigitValue(text[2]);
  if (high < 0 || low < 0) return std::nullopt;
  return static_cast<char>(high * 16 + low);
}

// A path of fields in a message has at most this many bytes, and then "...".
inline constexpr size_t kLongestFieldPath = 1024;

// Returns the path of the field `part` below `path`, for messages: "spec.x" for "spec" and ".x". It
// stays short however long the names in an object are, because each of a million items may need
// one.
inline std::string ExtendFieldPath(const std::string& path, std::string_view part) {
  if (path.size() >= kLongestFieldPath) return path;
  return Shortened(path + std::string(part.substr(0, kLongestFieldPath + 4)), kLongestFieldPath);
}

}  // namespace berth::base
