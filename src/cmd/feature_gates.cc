#include "cmd/feature_gates.h"

#include <algorithm>
#include <map>

#include "base/log.h"
#include "cmd/library_gates.h"

namespace berth::cmd {

using roles::ProcessOptions;
using std::string;

namespace {

// The values that `given` sets, by the gates' names.
std::map<string, bool> ResolveGates(const std::vector<Gate>& known,
                                    const std::map<string, bool>& given) {
  std::map<string, bool> values;
  for (const Gate& gate : known) {
    const char* const all = gate.stage == Gate::Stage::kAlpha  ? "AllAlpha"
                            : gate.stage == Gate::Stage::kBeta ? "AllBeta"
                                                               : "";
    auto found = given.find(gate.name);
    if (found == given.end()) found = given.find(all);
    if (found != given.end()) values.emplace(gate.name, found->second);
  }
  return values;
}

// FAILED_PRECONDITION: the Go programs refuse the value, too.
base::Status CheckGate(const std::vector<Gate>& known, const string& name, bool on) {
  if (std::ranges::find(known, name, &Gate::name) != known.end()) return base::OkStatus();
  if (name == "AllAlpha" || name == "AllBeta") return base::OkStatus();
  const LibraryGate* const gate = FindLibraryGate(name);
  if (gate == nullptr) {
    return base::Error(base::StatusCode::kFailedPrecondition, "unrecognized feature gate: {}",
                       base::Quote(name));
  }
  using Lock = LibraryGate::Lock;
  if (gate->lock == Lock::kNone || (gate->lock == Lock::kOn) == on) return base::OkStatus();
  return base::Error(base::StatusCode::kFailedPrecondition,
                     "cannot set feature gate {} to {}, feature is locked to {}", name, on, !on);
}

}  // namespace

GoFlag FeatureGates(const std::vector<Gate>& known) {
  GoFlag flag;
  flag.name = "feature-gates";
  flag.help = "Name=true,...; known:";
  for (const Gate& gate : known) flag.help += " " + gate.name;
  flag.use = GoFlag::Use::kDefault;
  flag.apply = [known](ProcessOptions& options, const string& value) -> base::Status {
    ASSIGN_OR_RETURN(const auto given, ParseGates(value));
    for (const auto& [name, on] : given) RETURN_IF_ERROR(CheckGate(known, name, on));
    const auto values = ResolveGates(known, given);
    for (const Gate& gate : known) {
      const auto found = values.find(gate.name);
      if (found != values.end() && gate.apply != nullptr) gate.apply(options, found->second);
    }
    return base::OkStatus();
  };
  flag.list_ignored = [known](const string& value) {
    std::vector<string> lines;
    const auto given = ParseGates(value);
    if (!given.ok()) return lines;
    const auto values = ResolveGates(known, *given);
    for (const Gate& gate : known) {
      const auto found = values.find(gate.name);
      if (found == values.end() || gate.apply != nullptr || found->second == gate.always) continue;
      lines.push_back(
          fmt::format("{}={} has no effect: {}", gate.name, found->second, gate.reason));
    }
    for (const auto& [name, on] : *given) {
      if (FindLibraryGate(name) == nullptr) continue;
      lines.push_back(fmt::format("{}={} has no effect: it is for API servers", name, on));
    }
    return lines;
  };
  return flag;
}

}  // namespace berth::cmd
