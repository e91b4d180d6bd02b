#include "controllers/nodelifecycle/node_taints.h"

#include <algorithm>
#include <array>
#include <vector>

#include "api/kinds/taints.h"
#include "controllers/well_known_names.h"

namespace berth::controllers::nodelifecycle {

using api::MakeTaint;
using base::Json;
using base::json::String;

namespace {

constexpr std::string_view kNoSchedule = "NoSchedule";
constexpr std::string_view kNoExecute = "NoExecute";

struct ConditionTaint {
  std::string_view type;
  std::string_view status;
  std::string_view key;
};
constexpr std::array<ConditionTaint, 6> kConditionTaints = {{
    {"Ready", "False", kNotReadyTaint},
    {"Ready", "Unknown", kUnreachableTaint},
    {"MemoryPressure", "True", kMemoryPressureTaint},
    {"DiskPressure", "True", kDiskPressureTaint},
    {"PIDPressure", "True", kPidPressureTaint},
    {"NetworkUnavailable", "True", kNetworkUnavailableTaint},
}};

bool IsManaged(const Json& taint) {
  const std::string key = String(taint, {"key"});
  const std::string effect = String(taint, {"effect"});
  if (effect == kNoExecute) return key == kNotReadyTaint || key == kUnreachableTaint;
  if (effect != kNoSchedule) return false;
  return key == kUnschedulableTaint ||
         std::any_of(kConditionTaints.begin(), kConditionTaints.end(),
                     [&](const ConditionTaint& one) { return key == one.key; });
}

}  // namespace

Eviction EvictionOf(const api::Node& node) {
  const Json* ready = node.condition("Ready");
  const std::string status = ready == nullptr ? "" : String(*ready, {"status"});
  if (status == "False") return Eviction::kNotReady;
  return status == "Unknown" ? Eviction::kUnreachable : Eviction::kNone;
}

Json TaintsFor(const api::Node& node, Eviction eviction, const std::string& now) {
  std::vector<std::pair<std::string_view, std::string_view>> wanted;  // key and effect
  for (const ConditionTaint& taint : kConditionTaints) {
    const Json* condition = node.condition(taint.type);
    if (condition != nullptr && String(*condition, {"status"}) == taint.status) {
      wanted.emplace_back(taint.key, kNoSchedule);
    }
  }
  if (node.unschedulable()) wanted.emplace_back(kUnschedulableTaint, kNoSchedule);
  if (eviction == Eviction::kNotReady) wanted.emplace_back(kNotReadyTaint, kNoExecute);
  if (eviction == Eviction::kUnreachable) wanted.emplace_back(kUnreachableTaint, kNoExecute);

  Json taints = Json::array();
  for (const Json& taint : node.taints()) {
    const auto it = std::find(wanted.begin(), wanted.end(),
                              std::pair<std::string_view, std::string_view>(
                                  String(taint, {"key"}), String(taint, {"effect"})));
    if (it == wanted.end() && IsManaged(taint)) continue;
    if (it != wanted.end()) wanted.erase(it);
    taints.push_back(taint);
  }
  for (const auto& [key, effect] : wanted) {
    Json taint = MakeTaint(key, "", effect);
    taint["timeAdded"] = now;
    taints.push_back(std::move(taint));
  }
  return taints;
}

}  // namespace berth::controllers::nodelifecycle
