// Scans JSON text that this program has written itself, several times as fast as a parser.
//
// The scanner calls these functions of the handler in the order of the text: Null, Boolean(bool),
// Integer(int64_t), Number(double, text), String(view), StartObject, Key(view), EndObject,
// StartArray, EndArray. Each returns false to stop. A view is valid until the next call. The scan
// ends at the first character that it cannot read. It finds only a part of the mistakes: it does
// not check that commas and brackets match, for example.
#pragma once

#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/utf8.h"

namespace berth::base::json {

template <typename Handler>
class Scanner {
 public:
  Scanner(std::string_view text, Handler& handler)
      : at_(text.data()), end_(text.data() + text.size()), handler_(handler) {}

  // True if the whole value was scanned. False: the handler stopped, or the text is malformed.
  bool Scan() {
    int depth = 0;
    do {
      if (!ScanNext(depth)) return false;
    } while (depth > 0);
    return true;
  }

 private:
  static bool IsBlank(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }
  static bool IsHex(char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
  }

  // Scans the next value, key or bracket, and skips the separators before it.
  bool ScanNext(int& depth) {
    while (at_ != end_ && (IsBlank(*at_) || *at_ == ',')) ++at_;
    if (at_ == end_) return false;
    switch (*at_) {
      case '{':
        ++at_;
        ++depth;
        return handler_.StartObject();
      case '[':
        ++at_;
        ++depth;
        return handler_.StartArray();
      case '}':
        ++at_;
        return --depth >= 0 && handler_.EndObject();
      case ']':
        ++at_;
        return --depth >= 0 && handler_.EndArray();
      case '"': {
        std::string_view text;
        if (!ReadString(text)) return false;
        while (at_ != end_ && IsBlank(*at_)) ++at_;
        if (at_ == end_ || *at_ != ':') return handler_.String(text);
        ++at_;
        return handler_.Key(text);
      }
      case 't':
        return ReadWord("true") && handler_.Boolean(true);
      case 'f':
        return ReadWord("false") && handler_.Boolean(false);
      case 'n':
        return ReadWord("null") && handler_.Null();
      default:
        return ReadNumber();
    }
  }

  bool ReadWord(std::string_view word) {
    if (!std::string_view(at_, static_cast<size_t>(end_ - at_)).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }

  bool ReadNumber() {
    int64_t integer = 0;
    const auto [int_end, int_error] = std::from_chars(at_, end_, integer);
    const bool fraction =
        int_end != end_ && (*int_end == '.' || *int_end == 'e' || *int_end == 'E');
    if (int_error == std::errc() && !fraction) {
      at_ = int_end;
      return handler_.Integer(integer);
    }
    double number = 0;
    const auto [end, error] = std::from_chars(at_, end_, number);
    if (error != std::errc()) return false;
    const std::string_view text(at_, static_cast<size_t>(end - at_));
    at_ = end;
    return handler_.Number(number, text);
  }

  // `out` points into the scanned text if the string has no escapes, and else into text_.
  bool ReadString(std::string_view& out) {
    const char* const begin = ++at_;
    while (at_ != end_ && *at_ != '"' && *at_ != '\\') ++at_;
    if (at_ == end_) return false;
    if (*at_ == '"') {
      out = std::string_view(begin, static_cast<size_t>(at_++ - begin));
      return true;
    }
    text_.assign(begin, at_);
    while (at_ != end_ && *at_ != '"') {
      if (*at_ != '\\') {
        text_ += *at_++;
      } else if (++at_ == end_ || !ReadEscape()) {
        return false;
      }
    }
    if (at_ == end_) return false;
    ++at_;
    out = text_;
    return true;
  }

  bool ReadEscape() {
    const char c = *at_++;
    switch (c) {
      case 'b':
        text_ += '\b';
        return true;
      case 'f':
        text_ += '\f';
        return true;
      case 'n':
        text_ += '\n';
        return true;
      case 'r':
        text_ += '\r';
        return true;
      case 't':
        text_ += '\t';
        return true;
      case 'u': {
        uint32_t code = 0;
        if (!ReadUnit(code)) return false;
        const bool high = code >= 0xd800 && code < 0xdc00;
        if (high && end_ - at_ >= 2 && at_[0] == '\\' && at_[1] == 'u') {
          at_ += 2;
          uint32_t low = 0;
          if (!ReadUnit(low) || low < 0xdc00 || low > 0xdfff) return false;
          code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
        } else if (code >= 0xd800 && code <= 0xdfff) {
          return false;
        }
        base::AppendUtf8(text_, code);
        return true;
      }
      default:
        text_ += c;
        return c == '"' || c == '\\' || c == '/';
    }
  }

  // Reads the four digits of \uXXXX.
  bool ReadUnit(uint32_t& code) {
    if (end_ - at_ < 4) return false;
    for (int i = 0; i < 4; ++i) {
      if (!IsHex(at_[i])) return false;
    }
    std::from_chars(at_, at_ + 4, code, 16);
    at_ += 4;
    return true;
  }

  const char* at_;
  const char* const end_;
  Handler& handler_;
  std::string text_;  // of a string with escapes
};

template <typename Handler>
bool Scan(std::string_view text, Handler& handler) {
  return Scanner<Handler>(text, handler).Scan();
}

}  // namespace berth::base::json
