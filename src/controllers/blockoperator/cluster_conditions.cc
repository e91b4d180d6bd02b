#include "controllers/blockoperator/cluster_conditions.h"

#include "api/time.h"

namespace berth::controllers::blockoperator {

using base::Json;
using base::json::String;

std::string ReadClusterCondition(const api::StorageCluster& cluster, std::string_view type) {
  for (const Json& condition : base::json::Array(cluster.json(), {"status", "conditions"})) {
    if (String(condition, {"type"}) == type && String(condition, {"status"}) == "True") {
      return String(condition, {"message"});
    }
  }
  return "";
}

ClusterCondition TroubleCondition(std::string_view type, const std::string& message,
                                  std::string_view none) {
  const bool is_true = !message.empty();
  return {.type = std::string(type),
          .is_true = is_true,
          .reason = std::string(is_true ? type : none),
          .message = message};
}

Json ReplaceClusterCondition(const api::StorageCluster& cluster, const ClusterCondition& condition,
                             const base::Clock& clock) {
  Json made = {{"type", condition.type},
               {"status", condition.is_true ? "True" : "False"},
               {"reason", condition.reason},
               {"message", condition.message},
               {"lastTransitionTime", api::FormatTime(clock.Now())}};
  Json conditions = base::json::Array(cluster.json(), {"status", "conditions"});
  for (Json& other : conditions) {
    if (String(other, {"type"}) != condition.type) continue;
    if (String(other, {"status"}) == String(made, {"status"})) {
      made["lastTransitionTime"] = String(other, {"lastTransitionTime"});
    }
    other = std::move(made);
    return conditions;
  }
  conditions.push_back(std::move(made));
  return conditions;
}

}  // namespace berth::controllers::blockoperator
