// Kubernetes quantities: "10Gi", "500M", "1.5Gi", "1e9", "100m" (resource.Quantity).
//
// Pure and thread-safe. A quantity is exact to 10^-9; finer digits round up, as in Kubernetes.
// Values beyond int64 are refused, because Kubernetes caps them silently, which would make a wrong
// volume size.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace berth::api {

class Quantity {
 public:
  // The form of the text: powers of 1024 ("1Gi"), of 1000 ("1G"), or an exponent ("1e9").
  enum class Format { kBinarySI, kDecimalSI, kDecimalExponent };

  Quantity() = default;  // zero
  static Quantity Of(int64_t value, Format format) {
    return Quantity(__int128{value} * kNano, format);
  }

  // INVALID_ARGUMENT: `text` is not a quantity. OUT_OF_RANGE: it is beyond int64.
  static base::StatusOr<Quantity> Parse(std::string_view text);

  // Whole units, rounded up (away from zero, as Kubernetes does).
  int64_t value() const;
  // Thousandths, rounded up: 100 for "100m" CPU. Larger values than int64 are cut to its maximum.
  int64_t milli_value() const {
    const __int128 milli = nano_ / 1'000'000 + (nano_ % 1'000'000 > 0 ? 1 : 0);
    return milli > INT64_MAX ? INT64_MAX : static_cast<int64_t>(milli);
  }
  Format format() const { return format_; }
  // The canonical form: without a fraction, and with the largest suffix that loses nothing.
  std::string ToString() const;

  // Compares by value alone: 1Gi equals 1024Mi.
  std::strong_ordering operator<=>(const Quantity& other) const { return nano_ <=> other.nano_; }
  bool operator==(const Quantity& other) const { return nano_ == other.nano_; }

 private:
  static constexpr int64_t kNano = 1'000'000'000;
  Quantity(__int128 nano, Format format) : nano_(nano), format_(format) {}

  __int128 nano_ = 0;
  Format format_ = Format::kDecimalSI;
};

// Parses a storage size into bytes, rounded up. Errors as Quantity::Parse; INVALID_ARGUMENT also if
// the size is negative.
base::StatusOr<int64_t> ParseBytes(std::string_view text);

// A size in canonical BinarySI: FormatBytes(1073741824) is "1Gi", FormatBytes(1000) is "1k" (below
// 1024 Kubernetes falls back to decimal suffixes).
std::string FormatBytes(int64_t bytes);

// Negative if a < b, zero if a == b, positive if a > b. Errors as Quantity::Parse.
base::StatusOr<int> CompareQuantities(std::string_view a, std::string_view b);

// Returns `text` in canonical form: "1Gi" for "1024Mi". Errors as Quantity::Parse.
base::StatusOr<std::string> ToCanonicalQuantity(std::string_view text);

}  // namespace berth::api
