#include "apiserver/kind_rules.h"

#include "api/quantity.h"

namespace berth::apiserver {

const KindRules& RulesFor(const api::KindInfo& info) {
  static const std::vector<KindRules> all = [] {
    std::vector<KindRules> rules;
    AddCoreRules(rules);
    AddEventRules(rules);
    AddPodRules(rules);
    AddVolumeRules(rules);
    AddStorageRules(rules);
    for (const api::KindInfo* kind : api::AllKinds()) {
      const bool present = std::any_of(rules.begin(), rules.end(),
                                       [&](const KindRules& one) { return one.info == kind; });
      if (!present) rules.emplace_back(*kind);  // a kind without rules of its own is only stored
    }
    return rules;
  }();
  return *std::find_if(all.begin(), all.end(),
                       [&](const KindRules& rules) { return rules.info == &info; });
}

void Default(Json& object, base::json::Path path, Json value) {
  if (base::json::Find(object, path) == nullptr) base::json::Set(object, path, std::move(value));
}

void CheckOneOf(const Json& object, base::json::Path path, std::string_view field,
                std::initializer_list<std::string_view> supported, FieldErrors& errors) {
  const std::string value = base::json::String(object, path);
  if (value.empty()) return errors.Required(field);
  if (std::find(supported.begin(), supported.end(), value) == supported.end()) {
    errors.NotSupported(field, value, supported);
  }
}

void CheckPresent(const Json& object, base::json::Path path, std::string_view field,
                  FieldErrors& errors) {
  const Json* value = base::json::Find(object, path);
  if (value == nullptr || value->empty() || (value->is_string() && *value == "")) {
    errors.Required(field);
  }
}

void CheckPositiveQuantity(const Json* value, std::string_view field, FieldErrors& errors) {
  if (value == nullptr) return errors.Required(field);
  const std::string text =
      value->is_string() ? value->get<std::string>() : base::json::Dump(*value);
  const auto quantity = api::Quantity::Parse(text);
  if (!quantity.ok()) return errors.Check(field, *value, quantity.status());
  if (*quantity <= api::Quantity()) errors.Invalid(field, *value, "must be greater than zero");
}

void ForbidChange(const Json& object, const Json& old, base::json::Path path,
                  std::string_view field, std::string_view detail, FieldErrors& errors) {
  const Json* now = base::json::Find(object, path);
  const Json* before = base::json::Find(old, path);
  const bool same = now == nullptr || before == nullptr ? now == before : *now == *before;
  if (!same) errors.Forbidden(field, detail);
}

void AddFinalizer(Json& object, std::string_view finalizer) {
  Json list = base::json::Array(object, {"metadata", "finalizers"});
  if (std::find(list.begin(), list.end(), finalizer) != list.end()) return;
  list.push_back(std::string(finalizer));
  base::json::Set(object, {"metadata", "finalizers"}, std::move(list));
}

}  // namespace berth::apiserver
