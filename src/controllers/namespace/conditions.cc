#include "controllers/namespace/conditions.h"

#include <fmt/ranges.h>

#include <algorithm>

namespace berth::controllers::namespaces {

using base::Json;
using base::json::String;

namespace {

struct Condition {
  std::string_view type;
  bool holds;
  std::string_view reason;
  std::string message;
};

std::string Join(const std::map<std::string, size_t>& counts, std::string_view verb) {
  std::vector<std::string> parts;
  for (const auto& [what, count] : counts) {
    parts.push_back(fmt::format("{} {} {} resource instances", what, verb, count));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

Condition Discovery(const std::string& failure) {
  constexpr std::string_view kType = "NamespaceDeletionDiscoveryFailure";
  if (failure.empty()) {
    return {kType, false, "ResourcesDiscovered", "All resources successfully discovered"};
  }
  return {kType, true, "DiscoveryFailed", failure};
}

Condition Deletion(const Content& content) {
  constexpr std::string_view kType = "NamespaceDeletionContentFailure";
  if (content.failures.empty()) {
    return {kType, false, "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization"};
  }
  return {kType, true, "ContentDeletionFailed",
          fmt::format("Failed to delete all resource types, {} remaining: {}",
                      content.failures.size(), fmt::join(content.failures, ", "))};
}

Condition Remaining(const Content& content) {
  constexpr std::string_view kType = "NamespaceContentRemaining";
  if (content.remaining.empty()) {
    return {kType, false, "ContentRemoved", "All content successfully removed"};
  }
  return {kType, true, "SomeResourcesRemain",
          "Some resources are remaining: " + Join(content.remaining, "has")};
}

Condition Finalizers(const Content& content) {
  constexpr std::string_view kType = "NamespaceFinalizersRemaining";
  if (content.finalizers.empty()) {
    return {kType, false, "ContentHasNoFinalizers", "All content-preserving finalizers finished"};
  }
  return {
      kType, true, "SomeFinalizersRemain",
      "Some content in the namespace has finalizers remaining: " + Join(content.finalizers, "in")};
}

void SetCondition(Json& conditions, const Condition& condition, const std::string& now) {
  const std::string status = condition.holds ? "True" : "False";
  Json next = {{"type", std::string(condition.type)},
               {"status", status},
               {"reason", std::string(condition.reason)},
               {"message", condition.message},
               {"lastTransitionTime", now}};
  for (Json& present : conditions) {
    if (String(present, {"type"}) != condition.type) continue;
    if (String(present, {"status"}) == status) {
      next["lastTransitionTime"] = String(present, {"lastTransitionTime"}, now);
    }
    present = std::move(next);
    return;
  }
  conditions.push_back(std::move(next));
}

}  // namespace

Json DeletionConditions(const Json& present, const Content& content,
                        const std::string& discovery_failure, const std::string& now) {
  Json conditions = present;
  SetCondition(conditions, Discovery(discovery_failure), now);
  // This condition is always False, because discovery itself reads the names of groups.
  SetCondition(conditions,
               {"NamespaceDeletionGroupVersionParsingFailure", false, "ParsedGroupVersions",
                "All legacy kube types successfully parsed"},
               now);
  SetCondition(conditions, Deletion(content), now);
  SetCondition(conditions, Remaining(content), now);
  SetCondition(conditions, Finalizers(content), now);
  return conditions;
}

}  // namespace berth::controllers::namespaces
