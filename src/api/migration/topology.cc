#include "api/migration/topology.h"

#include <algorithm>
#include <functional>
#include <set>

#include "api/migration/plugin.h"

namespace berth::api::migration {

using base::Error;
using base::Status;
using base::StatusCode;
using base::StatusOr;

namespace {

const Json& Terms(const PersistentVolume& volume) {
  return base::json::Array(volume.json(),
                           {"spec", "nodeAffinity", "required", "nodeSelectorTerms"});
}

std::string KeyOf(const Json& requirement) { return base::json::String(requirement, {"key"}); }

bool HasTermKey(const Json& term, std::string_view key) {
  return std::ranges::any_of(base::json::Array(term, {"matchExpressions"}),
                             [&](const Json& requirement) { return KeyOf(requirement) == key; });
}

bool HasTopologyKey(const PersistentVolume& volume, std::string_view key) {
  return std::ranges::any_of(Terms(volume),
                             [&](const Json& term) { return HasTermKey(term, key); });
}

// Calls `edit` with each term of the node affinity.
void EditTerms(PersistentVolume& volume, const std::function<void(Json& term)>& edit) {
  if (Terms(volume).empty()) return;
  for (Json& term :
       volume.mutable_json()["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]) {
    edit(term);
  }
}

void AddRequirement(Json& term, std::string_view key, const std::vector<std::string>& values) {
  Json requirement = {{"key", key}, {"operator", "In"}, {"values", values}};
  if (base::json::Array(term, {"matchExpressions"}).empty()) {
    term["matchExpressions"] = Json::array({std::move(requirement)});
  } else {
    term["matchExpressions"].push_back(std::move(requirement));
  }
}

std::vector<std::string> FindTermValues(const Json& term, std::string_view key) {
  std::vector<std::string> values;
  for (const Json& requirement : base::json::Array(term, {"matchExpressions"})) {
    if (KeyOf(requirement) != key) continue;
    const auto more = base::json::Strings(base::json::Array(requirement, {"values"}));
    values.insert(values.end(), more.begin(), more.end());
  }
  return values;
}

Status AddRegion(PersistentVolume& volume, RegionFinder find_region) {
  const TopologyLabels labels = FindTopologyLabels(volume);
  Status failed;
  EditTerms(volume, [&](Json& term) {
    if (!failed.ok() || HasTermKey(term, labels.region)) return;
    const StatusOr<std::string> region = find_region(FindTermValues(term, labels.zone));
    if (region.ok()) {
      AddRequirement(term, labels.region, {*region});
    } else {
      failed = Error(StatusCode::kInvalidArgument, "Failed to handle region topology. error: {}",
                     base::Message(region.status()));
    }
  });
  RETURN_IF_ERROR(failed);
  const std::vector<std::string> regions = FindTopologyValues(volume, labels.region);
  if (regions.size() == 1) AddLabelIfAbsent(volume, labels.region, regions.front());
  return base::OkStatus();
}

}  // namespace

TopologyLabels FindTopologyLabels(const PersistentVolume& volume) {
  constexpr TopologyLabels kPresent = {kZoneLabel, kRegionLabel};
  constexpr TopologyLabels kBeta = {kBetaZoneLabel, kBetaRegionLabel};
  if (HasTopologyKey(volume, kZoneLabel)) return kPresent;
  if (HasTopologyKey(volume, kBetaZoneLabel)) return kBeta;
  const Labels labels = volume.labels();
  if (labels.contains(std::string(kZoneLabel))) return kPresent;
  return labels.contains(std::string(kBetaZoneLabel)) ? kBeta : kPresent;
}

std::vector<std::string> FindTopologyValues(const PersistentVolume& volume, std::string_view key) {
  std::set<std::string> values;
  for (const Json& term : Terms(volume)) {
    const std::vector<std::string> found = FindTermValues(term, key);
    values.insert(found.begin(), found.end());
  }
  return {values.begin(), values.end()};
}

void RenameTopologyKey(PersistentVolume& volume, std::string_view from, std::string_view to) {
  EditTerms(volume, [&](Json& term) {
    if (base::json::Array(term, {"matchExpressions"}).empty()) return;
    for (Json& requirement : term["matchExpressions"]) {
      if (KeyOf(requirement) == from) requirement["key"] = to;
    }
  });
}

void AddTopology(PersistentVolume& volume, std::string_view key,
                 const std::vector<std::string>& zones) {
  std::set<std::string> trimmed;
  for (const std::string& zone : zones) {
    constexpr const char* kSpace = " \t\n\v\f\r";
    const size_t begin = zone.find_first_not_of(kSpace);
    if (begin == std::string::npos) continue;
    trimmed.insert(zone.substr(begin, zone.find_last_not_of(kSpace) + 1 - begin));
  }
  if (trimmed.empty()) return;
  if (Terms(volume).empty()) {
    volume.Set({"spec", "nodeAffinity", "required", "nodeSelectorTerms"},
               Json::array({Json::object()}));
  }
  const std::vector<std::string> values(trimmed.begin(), trimmed.end());
  EditTerms(volume, [&](Json& term) { AddRequirement(term, key, values); });
}

void AddLabelIfAbsent(PersistentVolume& volume, std::string_view key, const std::string& value) {
  if (base::json::Find(volume.json(), {"metadata", "labels", key}) == nullptr) {
    volume.set_label(key, value);
  }
}

void TranslateTopologyToCsi(PersistentVolume& volume, std::string_view driver_key) {
  const TopologyLabels labels = FindTopologyLabels(volume);
  if (!FindTopologyValues(volume, labels.zone).empty()) {
    RenameTopologyKey(volume, labels.zone, driver_key);
  } else {
    AddTopology(volume, driver_key, Split(volume.label(labels.zone), kZoneDelimiter));
  }
  // New nodes have the region's present label only.
  if (labels.region == kBetaRegionLabel && !FindTopologyValues(volume, labels.region).empty()) {
    RenameTopologyKey(volume, labels.region, kRegionLabel);
  }
}

Status TranslateTopologyToInTree(PersistentVolume& volume, std::string_view driver_key,
                                 RegionFinder find_region) {
  const std::string_view zone_label = FindTopologyLabels(volume).zone;
  RenameTopologyKey(volume, driver_key, zone_label);
  if (find_region != nullptr) {
    const Status added = AddRegion(volume, find_region);
    if (!added.ok()) {
      return Error(StatusCode::kInvalidArgument, "failed to translate topology. PV:{}. Error:{}",
                   volume.name(), base::Message(added));
    }
  }
  const std::vector<std::string> zones = FindTopologyValues(volume, zone_label);
  if (!zones.empty()) AddLabelIfAbsent(volume, zone_label, Join(zones, kZoneDelimiter));
  return base::OkStatus();
}

StatusOr<std::string> TakeOnlyRegion(const std::vector<std::string>& regions) {
  const std::set<std::string> different(regions.begin(), regions.end());
  if (different.size() == 1) return *different.begin();
  std::vector<std::string> shown;  // as Go prints a set
  for (const std::string& region : different) shown.push_back(region + ":{}");
  return Error(StatusCode::kInvalidArgument,
               "multiple or no regions gotten from zones, got: map[{}]", Join(shown, " "));
}

Json TranslateAllowedTopologies(const Json& terms, std::string_view driver_key) {
  Json out = terms;
  for (Json& term : out) {
    if (base::json::Array(term, {"matchLabelExpressions"}).empty()) continue;
    for (Json& requirement : term["matchLabelExpressions"]) {
      const std::string key = KeyOf(requirement);
      if (key == kZoneLabel || key == kBetaZoneLabel) requirement["key"] = driver_key;
    }
  }
  return out;
}

Status SetParametersAndZones(StorageClass& storage_class, const Labels& parameters,
                             const std::vector<std::string>& zones, std::string_view driver_key) {
  const Json allowed = storage_class.allowed_topologies();
  if (!zones.empty() && !allowed.empty()) {
    return Error(StatusCode::kInvalidArgument,
                 "cannot simultaneously set allowed topologies and zone/zones parameters");
  }
  if (!zones.empty()) {
    Json requirement = {{"key", driver_key}, {"values", zones}};
    storage_class.Set({"allowedTopologies"},
                      Json::array({{{"matchLabelExpressions", Json::array({requirement})}}}));
  } else if (!allowed.empty()) {
    storage_class.Set({"allowedTopologies"}, TranslateAllowedTopologies(allowed, driver_key));
  }
  if (parameters.empty()) {
    base::json::Remove(storage_class.mutable_json(), {"parameters"});
  } else {
    storage_class.Set({"parameters"}, parameters);
  }
  return base::OkStatus();
}

std::vector<std::string> ReadZones(std::string_view key, const std::string& value) {
  if (key == "zone") return {value};
  if (key == "zones") return Split(value, ",");
  return {};
}

}  // namespace berth::api::migration
