#include "api/quantity.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>

#include "base/log.h"

namespace berth::api {
namespace {

using base::Error;
using base::StatusCode;

struct Suffix {
  std::string_view text;
  int exponent;  // of 2 or of 10
};

constexpr std::array<Suffix, 6> kBinary = {
    {{"Ki", 10}, {"Mi", 20}, {"Gi", 30}, {"Ti", 40}, {"Pi", 50}, {"Ei", 60}}};
constexpr std::array<Suffix, 10> kDecimal = {{{"n", -9},
                                              {"u", -6},
                                              {"m", -3},
                                              {"", 0},
                                              {"k", 3},
                                              {"M", 6},
                                              {"G", 9},
                                              {"T", 12},
                                              {"P", 15},
                                              {"E", 18}}};

constexpr size_t kMaxLength = 64;  // of the digits of a number; checked before any arithmetic

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

base::Status Malformed(std::string_view text) {
  return Error(StatusCode::kInvalidArgument,
               "{} is not a quantity: quantities must match the regular expression "
               "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
               base::Quote(text));
}

struct Scale {
  Quantity::Format format;
  int exponent;
};

// Parses "e3" or "E-2". The exponent of ten is cut at ±1000, so that scaling stays bounded.
base::StatusOr<Scale> ParseExponent(std::string_view whole, std::string_view text) {
  std::string_view digits = text.substr(1);
  const bool negative = !digits.empty() && digits.front() == '-';
  if (!digits.empty() && (digits.front() == '-' || digits.front() == '+')) digits.remove_prefix(1);
  if (digits.empty() || digits.size() > 6) return Malformed(whole);
  int exponent = 0;
  for (const char c : digits) {
    if (!IsDigit(c)) return Malformed(whole);
    exponent = std::min(exponent * 10 + (c - '0'), 1000);
  }
  return Scale{Quantity::Format::kDecimalExponent, negative ? -exponent : exponent};
}

base::StatusOr<Scale> ParseSuffix(std::string_view whole, std::string_view text) {
  for (const Suffix& suffix : kBinary) {
    if (text == suffix.text) return Scale{Quantity::Format::kBinarySI, suffix.exponent};
  }
  for (const Suffix& suffix : kDecimal) {
    if (text == suffix.text) return Scale{Quantity::Format::kDecimalSI, suffix.exponent};
  }
  if (text.front() == 'e' || text.front() == 'E') return ParseExponent(whole, text);
  return Malformed(whole);
}

struct Number {
  std::string digits;    // without the point
  int fraction = 0;      // how many of the digits stand behind the point
  bool inexact = false;  // finer digits were dropped
  size_t length = 0;     // of the text
};

// The number of digits after the point that are kept. A quantity is exact to nine; a suffix of up
// to 2^60 shifts another nine digits to the left. Finer digits only round up.
constexpr int kMaxFraction = 18;

base::StatusOr<Number> ParseNumber(std::string_view whole, std::string_view text) {
  Number number;
  bool point = false;
  for (; number.length < text.size(); ++number.length) {
    const char c = text[number.length];
    if (c == '.' && !point) {
      point = true;
    } else if (!IsDigit(c)) {
      break;
    } else if (number.fraction == kMaxFraction) {
      number.inexact = number.inexact || c != '0';
    } else {
      number.digits += c;
      if (point) ++number.fraction;
    }
  }
  if (number.digits.empty() || number.length > kMaxLength) return Malformed(whole);
  return number;
}

// Returns the number times 2^exponent2 times 10^exponent10, in units of 10^-9, rounded up; nullopt
// if it is beyond int64.
std::optional<__int128> ToNano(const Number& number, int exponent2, int exponent10) {
  constexpr __int128 kLimit = __int128{std::numeric_limits<int64_t>::max()} * 1'000'000'000;
  constexpr __int128 kMax = std::numeric_limits<__int128>::max();
  __int128 value = 0;
  for (const char c : number.digits) {
    if (value > kMax / 16) return std::nullopt;
    value = value * 10 + (c - '0');
  }
  for (int i = 0; i < exponent2; ++i) {
    if (value > kMax / 2) return std::nullopt;
    value *= 2;
  }
  bool inexact = number.inexact;
  int shift = exponent10 + 9 - number.fraction;
  for (; shift > 0 && value != 0; --shift) {
    if (value > kLimit) return std::nullopt;
    value *= 10;
  }
  for (; shift < 0 && value != 0; ++shift) {
    inexact = inexact || value % 10 != 0;
    value /= 10;
  }
  if (inexact) ++value;
  if (value > kLimit) return std::nullopt;
  return value;
}

std::string FormatDecimal(__int128 value) {
  // Canonical mantissas are integers below 10^28; fmt prints 128-bit integers.
  return fmt::format("{}", value);
}

}  // namespace

base::StatusOr<Quantity> Quantity::Parse(std::string_view text) {
  std::string_view rest = text;
  const bool negative = !rest.empty() && rest.front() == '-';
  if (!rest.empty() && (rest.front() == '-' || rest.front() == '+')) rest.remove_prefix(1);

  ASSIGN_OR_RETURN(const Number number, ParseNumber(text, rest));
  const std::string_view suffix = rest.substr(number.length);
  Scale scale{Format::kDecimalSI, 0};
  if (!suffix.empty()) {
    ASSIGN_OR_RETURN(scale, ParseSuffix(text, suffix));
  }
  const bool binary = scale.format == Format::kBinarySI;
  const std::optional<__int128> nano =
      ToNano(number, binary ? scale.exponent : 0, binary ? 0 : scale.exponent);
  if (!nano) {
    return Error(StatusCode::kOutOfRange, "quantity {} is beyond the range of 64 bits",
                 base::Quote(text));
  }
  return Quantity(negative ? -*nano : *nano, scale.format);
}

int64_t Quantity::value() const {
  const __int128 magnitude = nano_ < 0 ? -nano_ : nano_;
  const auto whole = static_cast<int64_t>((magnitude + kNano - 1) / kNano);
  return nano_ < 0 ? -whole : whole;
}

std::string Quantity::ToString() const {
  if (nano_ == 0) return "0";
  Format format = format_;
  if (format == Format::kBinarySI) {
    // Kubernetes prints binary quantities below 1024 with decimal suffixes, and larger ones whole.
    const __int128 limit = __int128{1024} * kNano;
    if (nano_ < limit && nano_ > -limit) format = Format::kDecimalSI;
  }
  if (format == Format::kBinarySI) {
    int64_t mantissa = value();
    size_t steps = 0;
    while (steps < kBinary.size() && mantissa % 1024 == 0) {
      mantissa /= 1024;
      ++steps;
    }
    return steps == 0 ? fmt::format("{}", mantissa)
                      : fmt::format("{}{}", mantissa, kBinary[steps - 1].text);
  }
  __int128 mantissa = nano_;
  int exponent = -9;
  while (exponent < 18 && mantissa % 1000 == 0) {
    mantissa /= 1000;
    exponent += 3;
  }
  if (format == Format::kDecimalExponent) {
    return exponent == 0 ? FormatDecimal(mantissa)
                         : fmt::format("{}e{}", FormatDecimal(mantissa), exponent);
  }
  return fmt::format("{}{}", FormatDecimal(mantissa),
                     kDecimal[static_cast<size_t>((exponent + 9) / 3)].text);
}

base::StatusOr<int64_t> ParseBytes(std::string_view text) {
  ASSIGN_OR_RETURN(const Quantity quantity, Quantity::Parse(text));
  if (quantity < Quantity()) {
    return Error(StatusCode::kInvalidArgument, "size {} is negative", base::Quote(text));
  }
  return quantity.value();
}

std::string FormatBytes(int64_t bytes) {
  return Quantity::Of(bytes, Quantity::Format::kBinarySI).ToString();
}

base::StatusOr<int> CompareQuantities(std::string_view a, std::string_view b) {
  ASSIGN_OR_RETURN(const Quantity left, Quantity::Parse(a));
  ASSIGN_OR_RETURN(const Quantity right, Quantity::Parse(b));
  return left < right ? -1 : left == right ? 0 : 1;
}

base::StatusOr<std::string> ToCanonicalQuantity(std::string_view text) {
  ASSIGN_OR_RETURN(const Quantity quantity, Quantity::Parse(text));
  return quantity.ToString();
}

}  // namespace berth::api
