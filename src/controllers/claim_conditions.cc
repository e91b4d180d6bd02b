#include "controllers/claim_conditions.h"

#include <algorithm>

#include "api/time.h"

namespace berth::controllers {

using base::Json;

namespace {

std::string TypeOf(const Json& condition) { return base::json::String(condition, {"type"}); }

const Json* Find(const api::PersistentVolumeClaim& claim, std::string_view type) {
  for (const Json& condition : claim.conditions()) {
    if (TypeOf(condition) == type && base::json::String(condition, {"status"}) == "True") {
      return &condition;
    }
  }
  return nullptr;
}

}  // namespace

Json MakeCondition(std::string_view type, std::string_view message, const base::Clock& clock,
                   std::string_view reason) {
  Json condition = {{"type", std::string(type)},
                    {"status", "True"},
                    {"lastProbeTime", nullptr},
                    {"lastTransitionTime", api::FormatTime(clock.Now())},
                    {"message", std::string(message)}};
  if (!reason.empty()) condition["reason"] = std::string(reason);
  return condition;
}

Json ReplaceConditions(const api::PersistentVolumeClaim& claim,
                       std::span<const std::string_view> drop, Json add) {
  Json out = Json::array();
  for (const Json& condition : claim.conditions()) {
    const std::string type = TypeOf(condition);
    if (!add.is_null() && type == TypeOf(add)) {
      out.push_back(std::exchange(add, nullptr));
    } else if (std::find(drop.begin(), drop.end(), type) == drop.end()) {
      out.push_back(condition);
    }
  }
  if (!add.is_null()) out.push_back(std::move(add));
  return out;
}

std::string ConditionMessage(const api::PersistentVolumeClaim& claim, std::string_view type) {
  const Json* condition = Find(claim, type);
  return condition == nullptr ? "" : base::json::String(*condition, {"message"});
}

bool HasCondition(const api::PersistentVolumeClaim& claim, std::string_view type) {
  return Find(claim, type) != nullptr;
}

}  // namespace berth::controllers
