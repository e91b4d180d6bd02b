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

Json ReplaceClusterCondition(const api::StorageCluster& cluster, const ClusterCondition& condition,
                             const base::Clock& clock) {
  const bool is_true = !condition.message.empty();
  Json made = {{"type", condition.type},
               {"status", is_true ? "True" : "False"},
               {"reason", is_true ? condition.type : condition.false_reason},
               {"message", condition.message},
               {"lastTransitionTime", api::FormatTime(clock.Now())}};
  Json conditions = Json::array();
  for (const Json& other : base::json::Array(cluster.json(), {"status", "conditions"})) {
    if (String(other, {"type"}) != condition.type) {
      conditions.push_back(other);
    } else if (String(other, {"status"}) == String(made, {"status"})) {
      made["lastTransitionTime"] = String(other, {"lastTransitionTime"});
    }
  }
  conditions.push_back(std::move(made));
  return conditions;
}

}  // namespace berth::controllers::blockoperator
