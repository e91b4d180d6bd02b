#include "apiserver/kinds/kind_rules.h"

namespace berth::apiserver {

const KindRules& RulesFor(const api::KindInfo& info) {
  static const std::vector<KindRules> all = [] {
    std::vector<KindRules> rules;
    AddCoreRules(rules);
    AddEventRules(rules);
    AddPodRules(rules);
    AddVolumeRules(rules);
    AddStorageRules(rules);
    AddNodeRules(rules);
    AddAppRules(rules);
    AddBerthRules(rules);
    AddDefinitionRules(rules);
    for (const api::KindInfo* kind : api::BuiltInKinds()) {
      const bool present = std::any_of(rules.begin(), rules.end(),
                                       [&](const KindRules& one) { return one.info == kind; });
      if (!present) rules.emplace_back(*kind);  // a kind without rules of its own is only stored
    }
    for (KindRules& one : rules) one.schema = api::SchemaOf(*one.info);
    return rules;
  }();
  return *std::find_if(all.begin(), all.end(),
                       [&](const KindRules& rules) { return rules.info == &info; });
}

void SetDefault(Json& object, base::json::Path path, Json value) {
  if (base::json::Find(object, path) == nullptr) base::json::Set(object, path, std::move(value));
}

Json* FindMutable(Json& object, base::json::Path path) {
  return const_cast<Json*>(base::json::Find(object, path));
}

void AddFinalizer(Json& object, std::string_view finalizer) {
  Json list = base::json::Array(object, {"metadata", "finalizers"});
  if (std::find(list.begin(), list.end(), finalizer) != list.end()) return;
  list.push_back(std::string(finalizer));
  base::json::Set(object, {"metadata", "finalizers"}, std::move(list));
}

}  // namespace berth::apiserver
