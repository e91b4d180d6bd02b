#include "apiserver/formats/media_range.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "api/names.h"
#include "base/text.h"

namespace berth::apiserver {
namespace {

constexpr size_t kMaxRanges = 64;
constexpr size_t kMaxRangeParameters = 16;

// Removes from `text` the part before `separator`, and the separator, and returns the part.
std::string_view TakeUntil(std::string_view& text, char separator) {
  const size_t end = text.find(separator);
  const std::string_view part = base::Trim(text.substr(0, end));
  text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  return part;
}

// "0" to "1". Any other text counts as 1, because the client has listed the range as acceptable.
double ParseQuality(std::string_view text) {
  double quality = 1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), quality);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole && quality >= 0 && quality <= 1 ? quality : 1;
}

std::optional<MediaRange> ParseRange(std::string_view text) {
  MediaRange range;
  range.type = api::LowerCase(TakeUntil(text, ';'));
  const size_t slash = range.type.find('/');
  const bool named = slash != std::string::npos && slash > 0 && slash + 1 < range.type.size();
  if (!named || (range.type.starts_with("*/") && range.type != "*/*")) return std::nullopt;
  while (!text.empty()) {
    std::string_view value = TakeUntil(text, ';');
    const std::string_view name = TakeUntil(value, '=');
    value = base::Trim(value);
    if (value.size() >= 2 && value.front() == '"' && value.back() == '"') {
      value = value.substr(1, value.size() - 2);
    }
    if (name == "q" || name == "Q") {
      range.quality = ParseQuality(value);
    } else if (!name.empty() && range.parameters.size() < kMaxRangeParameters) {
      range.parameters.emplace_back(name, value);
    }
  }
  return range;
}

int Specificity(const MediaRange& range) {
  if (range.type == "*/*") return 0;
  return range.type.ends_with("/*") ? 1 : 2;
}

bool IsBetter(const MediaRange& a, const MediaRange& b) {
  if (a.quality != b.quality) return a.quality > b.quality;
  return Specificity(a) > Specificity(b);
}

}  // namespace

std::string_view MediaRange::Parameter(std::string_view name) const {
  for (const auto& [key, value] : parameters) {
    if (key == name) return value;
  }
  return {};
}

bool MediaRange::Includes(std::string_view media_type) const {
  if (type == "*/*" || type == media_type) return true;
  return type.ends_with("/*") &&
         media_type.starts_with(std::string_view(type).substr(0, type.size() - 1));
}

std::vector<MediaRange> ParseAccept(std::string_view header) {
  if (base::Trim(header).empty()) return {{.type = "*/*"}};
  std::vector<MediaRange> ranges;
  while (!header.empty() && ranges.size() < kMaxRanges) {
    auto range = ParseRange(TakeUntil(header, ','));
    if (!range || range->quality == 0) continue;
    // Ranges of the same quality keep their order.
    const auto at = std::upper_bound(ranges.begin(), ranges.end(), *range, IsBetter);
    ranges.insert(at, *std::move(range));
  }
  return ranges;
}

bool AcceptsGzip(const http::Request& request) {
  std::string_view header = request.Header("Accept-Encoding");
  while (!header.empty()) {
    std::string_view coding = TakeUntil(header, ',');
    if (!http::EqualsIgnoreCase(TakeUntil(coding, ';'), "gzip")) continue;
    const std::string_view name = TakeUntil(coding, '=');
    return !http::EqualsIgnoreCase(name, "q") || ParseQuality(base::Trim(coding)) > 0;
  }
  return false;
}

}  // namespace berth::apiserver
