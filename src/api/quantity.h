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

  // INVALID_ARGUMENT for what is no quantity, OUT_OF_RANGE beyond int64.
  static base::StatusOr<Quantity> Parse(std::string_view text);

  // Whole units, rounded up (away from zero, as Kubernetes does).
  int64_t value() const;
  // Thousandths, rounded up: of "100m" CPU 100. Capped to int64.
  int64_t milli_value() const {
    const __int128 milli = nano_ / 1'000'000 + (nano_ % 1'000'000 > 0 ? 1 : 0);
    return milli > INT64_MAX ? INT64_MAX : static_cast<int64_t>(milli);
  }
  Format format() const { return format_; }
  // The canonical form: no fraction, the largest suffix that loses nothing.
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

// The bytes of a storage size, rounded up. Errors as Quantity::Parse; INVALID_ARGUMENT also for a
// negative size.
base::StatusOr<int64_t> ParseBytes(std::string_view text);

// A size in canonical BinarySI: FormatBytes(1073741824) is "1Gi", FormatBytes(1000) is "1k" (below
// 1024 Kubernetes falls back to decimal suffixes).
std::string FormatBytes(int64_t bytes);

// Negative, zero or positive as a < b, a == b, a > b.
base::StatusOr<int> CompareQuantities(std::string_view a, std::string_view b);

// `text` in canonical form: "1024Mi" becomes "1Gi".
base::StatusOr<std::string> CanonicalQuantity(std::string_view text);

}  // namespace berth::api
