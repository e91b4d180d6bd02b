#include "base/fault_spec.h"

#include <fnmatch.h>

#include <charconv>
#include <optional>

#include "base/ids.h"

namespace berth::base {
namespace {

constexpr std::string_view kActions = "crash, error[:CODE], delay:MS and cut";
constexpr std::string_view kPassages =
    "N (the N-th passage) and P%SEED (P of 100 passages, by seed)";
constexpr int kLastCode = 16;

// Cuts `text` at the first `separator` and returns the text behind it; nullopt if there is none.
std::optional<std::string_view> CutAt(std::string_view& text, char separator) {
  const size_t at = text.find(separator);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view rest = text.substr(at + 1);
  text = text.substr(0, at);
  return rest;
}

template <typename T>
bool ParseNumber(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

bool FindCode(std::string_view name, StatusCode& code) {
  for (int i = 1; i <= kLastCode; ++i) {
    code = static_cast<StatusCode>(i);
    if (CodeName(code) == name) return true;
  }
  return false;
}

bool ParseWhen(std::string_view when, FaultSpec& spec) {
  const std::optional<std::string_view> seed = CutAt(when, '%');
  if (!seed.has_value()) return ParseNumber(when, spec.at_passage) && spec.at_passage > 0;
  return ParseNumber(when, spec.percent) && spec.percent >= 1 && spec.percent <= 100 &&
         ParseNumber(*seed, spec.seed);
}

bool ParseAction(std::string_view action, FaultSpec& spec) {
  const std::optional<std::string_view> argument = CutAt(action, ':');
  if (action == "error") {
    spec.action = FaultSpec::Action::kError;
    return !argument.has_value() || FindCode(*argument, spec.code);
  }
  if (action == "delay") {
    spec.action = FaultSpec::Action::kDelay;
    uint32_t ms = 0;
    if (!argument.has_value() || !ParseNumber(*argument, ms)) return false;
    spec.delay = std::chrono::milliseconds(ms);
    return true;
  }
  spec.action = action == "cut" ? FaultSpec::Action::kCut : FaultSpec::Action::kCrash;
  return (action == "cut" || action == "crash") && !argument.has_value();
}

StatusOr<FaultSpec> ParseFault(std::string_view item) {
  FaultSpec spec;
  std::string_view name = item;
  const std::optional<std::string_view> value = CutAt(name, '=');
  if (!value.has_value()) {
    return Error(StatusCode::kInvalidArgument, "'{}' is not NAME=ACTION; known actions are {}",
                 item, kActions);
  }
  if (const auto rest = CutAt(name, '/'); rest.has_value()) {
    spec.role = name;
    name = *rest;
  }
  spec.name = name;
  std::string_view action = *value;
  const std::optional<std::string_view> when = CutAt(action, '@');
  if (!ParseAction(action, spec)) {
    return Error(StatusCode::kInvalidArgument,
                 "'{}': there is no action '{}'; known actions are {}", item, action, kActions);
  }
  if (when.has_value() && !ParseWhen(*when, spec)) {
    return Error(StatusCode::kInvalidArgument, "'{}': '@{}' is not @WHEN; known forms are {}", item,
                 *when, kPassages);
  }
  return spec;
}

// The finalizer of SplitMix64: it turns neighbouring numbers into independent ones.
uint64_t MixBits(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

}  // namespace

bool FaultSpec::MatchesName(std::string_view point) const {
  return fnmatch(name.c_str(), std::string(point).c_str(), 0) == 0;
}

bool FaultSpec::ActsAt(std::string_view point, uint64_t passage) const {
  if (at_passage != 0) return passage == at_passage;
  return percent == 100 ||
         MixBits(MixBits(seed) ^ MixBits(Fnv1a64(point) + passage)) % 100 < percent;
}

StatusOr<std::vector<FaultSpec>> ParseFaults(std::string_view text) {
  std::vector<FaultSpec> specs;
  while (!text.empty()) {
    const std::string_view rest = CutAt(text, ',').value_or("");
    ASSIGN_OR_RETURN(FaultSpec spec, ParseFault(text));
    specs.push_back(std::move(spec));
    text = rest;
  }
  return specs;
}

}  // namespace berth::base
