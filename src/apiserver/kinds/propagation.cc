#include "apiserver/kinds/propagation.h"

#include <algorithm>

namespace berth::apiserver {

using base::json::Array;
using base::json::Find;
using base::json::String;

namespace {

constexpr std::string_view kForeground = "foregroundDeletion";
constexpr std::string_view kOrphan = "orphan";

base::Status InvalidPolicyError(std::string_view why) {
  return KubeError(
      Reason::kInvalid,
      fmt::format("DeleteOptions.meta.k8s.io \"\" is invalid: propagationPolicy: {}", why),
      {.group = "meta.k8s.io", .kind = "DeleteOptions"});
}

}  // namespace

base::StatusOr<Propagation> ParsePropagation(const Json& options) {
  Propagation propagation{.policy = String(options, {"propagationPolicy"}),
                          .orphan_dependents = {}};
  const std::string& policy = propagation.policy;
  if (!policy.empty() && policy != "Background" && policy != "Foreground" && policy != "Orphan") {
    return InvalidPolicyError(
        fmt::format("Unsupported value: \"{}\": supported values: \"Foreground\", "
                    "\"Background\", \"Orphan\", \"nil\"",
                    policy));
  }
  const Json* orphan = Find(options, {"orphanDependents"});
  if (orphan == nullptr || orphan->is_null()) return propagation;
  if (!orphan->is_boolean()) {
    return KubeError(Reason::kBadRequest, "orphanDependents must be true or false");
  }
  propagation.orphan_dependents = orphan->get<bool>();
  if (policy.empty()) return propagation;
  return InvalidPolicyError(
      fmt::format("Invalid value: \"{}\": orphanDependents and deletionPropagation cannot be both "
                  "set",
                  policy));
}

Json FinalizersAfterDelete(const KindRules& rules, const Json& object,
                           const Propagation& propagation) {
  const Json& present = Array(object, {"metadata", "finalizers"});
  // Events keep their finalizers, because they own nothing and the collector ignores them.
  if (&rules.info->stored() == &api::kinds::kEvent) return present;
  const auto has = [&](std::string_view finalizer) {
    return std::find(present.begin(), present.end(), finalizer) != present.end();
  };
  const bool asked = propagation.orphan_dependents.has_value() || !propagation.policy.empty();
  const bool orphan =
      asked ? propagation.orphan_dependents.value_or(propagation.policy == "Orphan") : has(kOrphan);
  const bool foreground =
      asked ? propagation.policy == "Foreground" : has(kForeground) && !has(kOrphan);
  Json finalizers = Json::array();
  for (const Json& finalizer : present) {
    if ((finalizer == kOrphan && !orphan) || (finalizer == kForeground && !foreground)) continue;
    finalizers.push_back(finalizer);
  }
  if (orphan && !has(kOrphan)) finalizers.push_back(std::string(kOrphan));
  if (foreground && !has(kForeground)) finalizers.push_back(std::string(kForeground));
  return finalizers;
}

}  // namespace berth::apiserver
