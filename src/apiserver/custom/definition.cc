#include "apiserver/custom/definition.h"

namespace berth::apiserver {

using base::json::Array;
using base::json::String;

void SetCondition(Json& definition, const DefinitionCondition& condition) {
  Json conditions = Array(definition, {"status", "conditions"});
  Json made = {{"type", std::string(condition.type)},
               {"status", std::string(condition.status)},
               {"reason", std::string(condition.reason)},
               {"message", condition.message},
               {"lastTransitionTime", condition.time}};
  const auto it = std::find_if(conditions.begin(), conditions.end(), [&](const Json& one) {
    return String(one, {"type"}) == condition.type;
  });
  if (it == conditions.end()) {
    conditions.push_back(std::move(made));
  } else {
    if (String(*it, {"status"}) == condition.status) {
      made["lastTransitionTime"] = String(*it, {"lastTransitionTime"}, condition.time);
    }
    *it = std::move(made);
  }
  base::json::Set(definition, {"status", "conditions"}, std::move(conditions));
}

bool IsConditionTrue(const Json& definition, std::string_view type) {
  const Json& conditions = Array(definition, {"status", "conditions"});
  return std::any_of(conditions.begin(), conditions.end(), [&](const Json& one) {
    return String(one, {"type"}) == type && String(one, {"status"}) == "True";
  });
}

Approval ApprovalOf(const Json& definition) {
  const std::string group = String(definition, {"spec", "group"});
  const bool guarded = group == "k8s.io" || group == "kubernetes.io" ||
                       group.ends_with(".k8s.io") || group.ends_with(".kubernetes.io");
  if (!guarded) return Approval::kNotNeeded;
  const std::string approval =
      String(definition, {"metadata", "annotations", "api-approved.kubernetes.io"});
  if (approval.empty()) return Approval::kMissing;
  if (approval.starts_with("unapproved")) return Approval::kBypassed;
  const size_t scheme = approval.find("://");
  const bool url = scheme != std::string::npos && scheme > 0 && approval.size() > scheme + 3 &&
                   approval[scheme + 3] != '/';
  return url ? Approval::kApproved : Approval::kMalformed;
}

}  // namespace berth::apiserver
