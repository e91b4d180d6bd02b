#include "apiserver/custom/formats.h"

#include <arpa/inet.h>
#include <re2/re2.h>

#include <array>
#include <charconv>
#include <string>

#include "api/cel/value.h"
#include "api/names.h"
#include "base/base64.h"

namespace berth::apiserver {

namespace {

bool Matches(std::string_view text, const RE2& regex) {
  return RE2::FullMatch(re2::StringPiece(text.data(), text.size()), regex);
}

bool IsAddress(std::string_view text, int family) {
  std::array<unsigned char, sizeof(in6_addr)> address;
  return inet_pton(family, std::string(text).c_str(), address.data()) == 1;
}

bool IsCidr(std::string_view text) {
  const size_t slash = text.find('/');
  if (slash == std::string_view::npos) return false;
  const std::string_view address = text.substr(0, slash);
  const std::string_view digits = text.substr(slash + 1);
  int bits = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), bits);
  if (error != std::errc() || end != digits.data() + digits.size() || bits < 0) return false;
  return (IsAddress(address, AF_INET) && bits <= 32) ||
         (IsAddress(address, AF_INET6) && bits <= 128);
}

bool IsDate(std::string_view text) {
  static const RE2 regex(R"(([0-9]{4})-([0-9]{2})-([0-9]{2}))");
  int year = 0;
  int month = 0;
  int day = 0;
  if (!RE2::FullMatch(re2::StringPiece(text.data(), text.size()), regex, &year, &month, &day)) {
    return false;
  }
  return std::chrono::year_month_day(std::chrono::year(year), std::chrono::month(month),
                                     std::chrono::day(day))
      .ok();
}

bool IsDateTime(std::string_view text) {
  static const RE2 regex(
      R"(([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]+)?([zZ]|[+-][0-9]{2}:[0-9]{2}))");
  const size_t t = text.find_first_of("tT");
  return t != std::string_view::npos && IsDate(text.substr(0, t)) &&
         Matches(text.substr(t + 1), regex);
}

// "1h30m", or in words: "2 days".
bool IsDuration(std::string_view text) {
  static const RE2 words(R"((?i)([0-9]+)\s*(ns|nanoseconds?|us|µs|microseconds?|ms|milliseconds?|)"
                         R"(s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?|w|weeks?))");
  return api::cel::ParseDuration(text).ok() || Matches(text, words);
}

// Checks the pattern and the digit sum of a card number.
bool IsCardNumber(std::string_view text) {
  std::string digits;
  for (const char c : text) {
    if (c >= '0' && c <= '9') digits += c;
  }
  static const RE2 regex(
      "(4[0-9]{12}([0-9]{3})?|5[1-5][0-9]{14}|(222[1-9]|22[3-9][0-9]|2[3-6][0-9]{2}|27[01][0-9]|"
      "2720)"
      "[0-9]{12}|6(011|5[0-9]{2})[0-9]{12}|3[47][0-9]{13}|3(0[0-5]|[68][0-9])[0-9]{11}|"
      "(2131|1800|35[0-9]{3})[0-9]{11}|6[27][0-9]{14})");
  if (!Matches(digits, regex)) return false;
  int sum = 0;
  bool twice = false;
  for (auto it = digits.rbegin(); it != digits.rend(); ++it, twice = !twice) {
    const int digit = (*it - '0') * (twice ? 2 : 1);
    sum += digit > 9 ? digit - 9 : digit;
  }
  return sum % 10 == 0;
}

bool IsIsbn(std::string_view text, size_t length) {
  std::string digits;
  for (const char c : text) {
    if (c != '-' && c != ' ') digits += c;
  }
  if (digits.size() != length) return false;
  int sum = 0;
  for (size_t i = 0; i < length; ++i) {
    const bool ten = length == 10 && i == 9 && digits[i] == 'X';
    if (!ten && (digits[i] < '0' || digits[i] > '9')) return false;
    const int value = ten ? 10 : digits[i] - '0';
    sum += length == 10 ? value * static_cast<int>(10 - i) : value * (i % 2 == 0 ? 1 : 3);
  }
  return sum % (length == 10 ? 11 : 10) == 0;
}

bool IsBase64(std::string_view text) { return base::DecodeBase64(text).has_value(); }

// A format that is only a regular expression.
struct Pattern {
  std::string_view format;
  std::string_view regex;
};
constexpr Pattern kPatterns[] = {
    {"bsonobjectid", "[0-9a-fA-F]{24}"},
    {"uri", "[a-zA-Z][a-zA-Z0-9+.-]*:[^ ]+|/[^ ]*"},
    {"email", R"([^@\s<>()\[\],;:"]+@[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?)"},
    {"hostname",
     R"(([a-zA-Z0-9]([a-zA-Z0-9-]{0,62}[a-zA-Z0-9])?\.)*[a-zA-Z0-9]([a-zA-Z0-9-]{0,62}[a-zA-Z0-9])?\.?)"},
    {"mac",
     "([0-9a-fA-F]{2}[:-]){5}[0-9a-fA-F]{2}|([0-9a-fA-F]{2}[:-]){7}[0-9a-fA-F]{2}|"
     R"(([0-9a-fA-F]{4}\.){2}[0-9a-fA-F]{4})"},
    {"uuid", "(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}"},
    {"uuid3", "(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?3[0-9a-f]{3}-?[0-9a-f]{4}-?[0-9a-f]{12}"},
    {"uuid4", "(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?4[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}"},
    {"uuid5", "(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?5[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}"},
    {"ssn", "[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}"},
    {"hexcolor", "#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})"},
    {"rgbcolor",
     R"(rgb\(\s*(0|[1-9][0-9]?|1[0-9]{2}|2[0-4][0-9]|25[0-5])\s*,\s*(0|[1-9][0-9]?|1[0-9]{2}|2[0-4][0-9]|25[0-5])\s*,\s*(0|[1-9][0-9]?|1[0-9]{2}|2[0-4][0-9]|25[0-5])\s*\))"},
};

const RE2* PatternOf(std::string_view format) {
  static const auto all = [] {
    std::map<std::string_view, std::unique_ptr<const RE2>> made;
    for (const Pattern& pattern : kPatterns) {
      made.emplace(pattern.format, std::make_unique<const RE2>(re2::StringPiece(
                                       pattern.regex.data(), pattern.regex.size())));
    }
    return made;
  }();
  const auto it = all.find(format);
  return it != all.end() ? it->second.get() : nullptr;
}

}  // namespace

bool HasFormat(std::string_view format, std::string_view text) {
  if (const RE2* regex = PatternOf(format)) return Matches(text, *regex);
  if (format == "date-time" || format == "datetime") return IsDateTime(text);
  if (format == "date") return IsDate(text);
  if (format == "duration") return IsDuration(text);
  if (format == "byte") return IsBase64(text);
  if (format == "ipv4") return IsAddress(text, AF_INET);
  if (format == "ipv6") return IsAddress(text, AF_INET6);
  if (format == "cidr") return IsCidr(text);
  if (format == "isbn10") return IsIsbn(text, 10);
  if (format == "isbn13") return IsIsbn(text, 13);
  if (format == "isbn") return IsIsbn(text, 10) || IsIsbn(text, 13);
  if (format == "creditcard") return IsCardNumber(text);
  if (format == "k8s-short-name") return api::CheckDns1123Label(text).ok();
  if (format == "k8s-long-name") return api::CheckDns1123Subdomain(text).ok();
  return true;
}

}  // namespace berth::apiserver
