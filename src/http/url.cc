#include "http/url.h"

#include <algorithm>
#include <cctype>

#include "base/text.h"

namespace berth::http {
namespace {

constexpr size_t kMaxParameters = 64;

}  // namespace

std::string PercentEncode(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool unreserved = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
                            (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.' || c == '~';
    out += unreserved ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

std::optional<std::string> PercentDecode(std::string_view text, bool plus_is_space) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '%') {
      const std::optional<char> byte = base::DecodePercentEscape(text.substr(i));
      if (!byte) return std::nullopt;
      c = *byte;
      i += 2;
    } else if (c == '+' && plus_is_space) {
      c = ' ';
    }
    if (c == '\0') return std::nullopt;
    out += c;
  }
  return out;
}

std::optional<std::vector<std::string>> SplitPath(std::string_view path) {
  std::vector<std::string> parts;
  while (!path.empty()) {
    path.remove_prefix(1);
    const size_t slash = path.find('/');
    auto part = PercentDecode(path.substr(0, slash), false);
    if (!part) return std::nullopt;
    parts.push_back(*std::move(part));
    if (slash == std::string_view::npos) break;
    path.remove_prefix(slash);
  }
  return parts;
}

base::StatusOr<Query> Query::Parse(std::string_view raw) {
  Query query;
  while (!raw.empty()) {
    const size_t end = raw.find('&');
    const std::string_view pair = raw.substr(0, end);
    raw = end == std::string_view::npos ? std::string_view() : raw.substr(end + 1);
    if (pair.empty()) continue;
    if (query.parameters_.size() == kMaxParameters) {
      return base::Error(base::StatusCode::kInvalidArgument,
                         "the query has more than {} parameters", kMaxParameters);
    }
    const size_t equals = pair.find('=');
    auto key = PercentDecode(pair.substr(0, equals), true);
    auto value = equals == std::string_view::npos ? std::string()
                                                  : PercentDecode(pair.substr(equals + 1), true);
    if (!key || !value) {
      return base::Error(base::StatusCode::kInvalidArgument, "the query has a bad percent escape");
    }
    query.parameters_.emplace_back(*std::move(key), *std::move(value));
  }
  return query;
}

const std::string& Query::Get(std::string_view key) const {
  static const std::string empty;
  for (const auto& [name, value] : parameters_) {
    if (name == key) return value;
  }
  return empty;
}

std::vector<std::string> Query::All(std::string_view key) const {
  std::vector<std::string> all;
  for (const auto& [name, value] : parameters_) {
    if (name == key) all.push_back(value);
  }
  return all;
}

bool Query::Has(std::string_view key) const {
  return std::any_of(parameters_.begin(), parameters_.end(),
                     [&](const auto& parameter) { return parameter.first == key; });
}

bool Query::Bool(std::string_view key) const {
  if (!Has(key)) return false;
  const std::string& value = Get(key);
  return !(value == "0" || EqualsIgnoreCase(value, "false"));
}

bool EqualsIgnoreCase(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](unsigned char x, unsigned char y) {
    return std::tolower(x) == std::tolower(y);
  });
}

}  // namespace berth::http
