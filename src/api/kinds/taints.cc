#include "api/kinds/taints.h"

#include <algorithm>

namespace berth::api {

using base::Json;
using base::json::String;

Json MakeTaint(std::string_view key, std::string_view value, std::string_view effect) {
  Json taint = {{"key", std::string(key)}, {"effect", std::string(effect)}};
  if (!value.empty()) taint["value"] = std::string(value);
  return taint;
}

bool Tolerates(const Json& toleration, const Json& taint) {
  const std::string effect = String(toleration, {"effect"});
  if (!effect.empty() && effect != String(taint, {"effect"})) return false;
  const bool exists = String(toleration, {"operator"}, "Equal") == "Exists";
  const std::string key = String(toleration, {"key"});
  if (key.empty()) return exists;
  if (key != String(taint, {"key"})) return false;
  return exists || String(toleration, {"value"}) == String(taint, {"value"});
}

bool AnyTolerates(const Json& tolerations, const Json& taint) {
  return std::any_of(tolerations.begin(), tolerations.end(),
                     [&](const Json& toleration) { return Tolerates(toleration, taint); });
}

const Json* FindUntolerated(const Json& taints, const Json& tolerations,
                            std::initializer_list<std::string_view> effects) {
  for (const Json& taint : taints) {
    const std::string effect = String(taint, {"effect"});
    if (std::find(effects.begin(), effects.end(), effect) == effects.end()) continue;
    if (!AnyTolerates(tolerations, taint)) return &taint;
  }
  return nullptr;
}

}  // namespace berth::api
