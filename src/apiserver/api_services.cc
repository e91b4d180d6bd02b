#include "apiserver/api_services.h"

#include <map>
#include <set>

#include "api/time.h"
#include "apiserver/api_context.h"
#include "apiserver/formats/object_text.h"
#include "apiserver/kinds/write_rules.h"

namespace berth::apiserver {

using base::Status;
using base::json::Map;
using base::json::String;

namespace {

// If several groups have a resource of the same short name, the group with the higher priority
// wins. The numbers are Kubernetes' own.
constexpr std::pair<std::string_view, int> kGroupPriorities[] = {
    {"", 18000},
    {"apps", 17800},
    {"events.k8s.io", 17750},
    {"authentication.k8s.io", 17700},
    {"authorization.k8s.io", 17600},
    {"policy", 17100},
    {"storage.k8s.io", 16800},
    {"apiextensions.k8s.io", 16700},
    {"coordination.k8s.io", 16500},
    {"node.k8s.io", 16300},
};
constexpr int kOtherGroup = 1000;
constexpr int kOtherVersion = 100;

Json MakeService(const std::string& group, const std::string& version) {
  int group_priority = kOtherGroup;
  for (const auto& [name, priority] : kGroupPriorities) {
    if (name == group) group_priority = priority;
  }
  const bool own = group_priority != kOtherGroup;
  Json spec = {{"version", version},
               {"groupPriorityMinimum", group_priority},
               {"versionPriority", own ? (group.empty() ? 1 : 15) : kOtherVersion}};
  if (!group.empty()) spec["group"] = group;
  return {{"apiVersion", api::kinds::kApiService.api_version()},
          {"kind", std::string(api::kinds::kApiService.kind)},
          {"metadata",
           {{"name", fmt::format("{}.{}", version, group)},
            {"labels", {{"kube-aggregator.kubernetes.io/automanaged", own ? "onstart" : "true"}}}}},
          {"spec", std::move(spec)}};
}

// The APIServices that `kinds` need, by name.
std::map<std::string, Json> MakeServices(std::span<const api::KindInfo* const> kinds) {
  std::map<std::string, Json> services;
  for (const api::KindInfo* kind : kinds) {
    if (kind->group == api::kinds::kApiService.group) continue;  // as in Kubernetes
    Json service = MakeService(std::string(kind->group), std::string(kind->version));
    std::string name = String(service, {"metadata", "name"});
    services.emplace(std::move(name), std::move(service));
  }
  return services;
}

bool HasWantedContent(const Json& stored, const Json& wanted) {
  return Map(stored, {"spec"}) == Map(wanted, {"spec"}) &&
         Map(stored, {"metadata", "labels"}) == Map(wanted, {"metadata", "labels"});
}

Status CreateService(store::Store& store, const base::Clock& clock, Json service) {
  const KindRules& rules = RulesFor(api::kinds::kApiService);
  StoreLookup lookup(store);
  const base::WallTime now = clock.Now();
  RETURN_IF_ERROR(
      PrepareNew(rules, service, FieldTracker::OfWriter(kServerManager, "", now), lookup, now));
  service["status"]["conditions"] =
      Json::array({{{"type", "Available"},
                    {"status", "True"},
                    {"reason", "Local"},
                    {"message", "Local APIServices are always available"},
                    {"lastTransitionTime", api::FormatTime(now)}}});
  const std::string name = String(service, {"metadata", "name"});
  return store.Apply({.key = ObjectStoreKey(*rules.info, "", name), .value = EncodeObject(service)})
      .status();
}

}  // namespace

Status SyncApiServices(store::Store& store, const base::Clock& clock,
                       std::span<const api::KindInfo* const> kinds) {
  std::map<std::string, Json> wanted = MakeServices(kinds);
  ASSIGN_OR_RETURN(const store::Page page,
                   store.List(KeyPrefix(api::kinds::kApiService, ""), "", 0, 0));
  for (const store::Record& record : page.records) {
    ASSIGN_OR_RETURN(const Json stored, DecodeStored(*record.value));
    const auto it = wanted.find(String(stored, {"metadata", "name"}));
    if (it == wanted.end()) {
      RETURN_IF_ERROR(store.Apply({.key = record.key, .expected = record.revision}).status());
      continue;
    }
    if (!HasWantedContent(stored, it->second)) {
      Json updated = stored;
      updated["spec"] = it->second["spec"];
      updated["metadata"]["labels"] = it->second["metadata"]["labels"];
      RETURN_IF_ERROR(
          store
              .Apply(
                  {.key = record.key, .expected = record.revision, .value = EncodeObject(updated)})
              .status());
    }
    wanted.erase(it);
  }
  for (auto& [name, service] : wanted) {
    RETURN_IF_ERROR(CreateService(store, clock, std::move(service)));
  }
  return base::OkStatus();
}

}  // namespace berth::apiserver
