#include "api/version_order.h"

#include <charconv>
#include <optional>
#include <tuple>

namespace berth::api {
namespace {

// "v2beta1" is {2, kBeta, 1}; "v2" is {2, kStable, 0}.
enum class Stage { kAlpha, kBeta, kStable };
struct Version {
  int major = 0;
  Stage stage = Stage::kStable;
  int minor = 0;
};

// Reads a number without leading zeros from the front of `text`, and removes it there.
std::optional<int> TakeNumber(std::string_view& text) {
  if (text.empty() || text.front() == '0') return std::nullopt;
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || value <= 0) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return value;
}

std::optional<Version> ParseVersion(std::string_view text) {
  if (!text.starts_with('v')) return std::nullopt;
  text.remove_prefix(1);
  Version version;
  const auto major = TakeNumber(text);
  if (!major) return std::nullopt;
  version.major = *major;
  if (text.empty()) return version;
  if (text.starts_with("alpha")) {
    version.stage = Stage::kAlpha;
    text.remove_prefix(5);
  } else if (text.starts_with("beta")) {
    version.stage = Stage::kBeta;
    text.remove_prefix(4);
  } else {
    return std::nullopt;
  }
  const auto minor = TakeNumber(text);
  if (!minor || !text.empty()) return std::nullopt;
  version.minor = *minor;
  return version;
}

}  // namespace

bool IsPreferredVersion(std::string_view a, std::string_view b) {
  const auto x = ParseVersion(a);
  const auto y = ParseVersion(b);
  if (!x || !y) return x.has_value() != y.has_value() ? x.has_value() : a < b;
  return std::tie(x->stage, x->major, x->minor) > std::tie(y->stage, y->major, y->minor);
}

}  // namespace berth::api
