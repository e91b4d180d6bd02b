#include "cli/objects/three_way_patch.h"

namespace berth::cli {
namespace {

using base::Json;

// True if `live` has everything that `wanted` has; it may have more.
bool Covers(const Json& live, const Json& wanted) {
  if (wanted.is_object()) {
    if (!live.is_object()) return false;
    for (const auto& [key, value] : wanted.items()) {
      if (value.is_null()) continue;
      const auto it = live.find(key);
      if (it == live.end() || !Covers(*it, value)) return false;
    }
    return true;
  }
  if (wanted.is_array()) {
    if (!live.is_array() || live.size() != wanted.size()) return false;
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (!Covers(live[i], wanted[i])) return false;
    }
    return true;
  }
  return live == wanted;
}

}  // namespace

Json ThreeWayPatch(const Json& last_applied, const Json& wanted, const Json& live) {
  Json patch = Json::object();
  static const Json kEmpty = Json::object();
  if (last_applied.is_object()) {
    for (const auto& [key, value] : last_applied.items()) {
      if (!wanted.contains(key) && live.contains(key)) patch[key] = nullptr;
    }
  }
  for (const auto& [key, value] : wanted.items()) {
    const auto at = live.find(key);
    if (at == live.end()) {
      if (!value.is_null()) patch[key] = value;
      continue;
    }
    const Json& before =
        last_applied.is_object() && last_applied.contains(key) ? last_applied[key] : kEmpty;
    if (value.is_object() && at->is_object()) {
      Json inner = ThreeWayPatch(before, value, *at);
      if (!inner.empty()) patch[key] = std::move(inner);
    } else if (value.is_array() && !before.is_object() && before != value) {
      if (*at != value) patch[key] = value;  // the manifest's own list changed
    } else if (!Covers(*at, value)) {
      patch[key] = value;
    }
  }
  return patch;
}

}  // namespace berth::cli
