// The topology of migrated volumes: an in-tree plugin says where a volume is by the labels of nodes
// for zone and region, in the PersistentVolume's labels and node affinity; a CSI driver says it by
// its own key in the node affinity.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/kinds/kinds.h"
#include "base/status.h"

namespace berth::api::migration {

inline constexpr std::string_view kZoneLabel = "topology.kubernetes.io/zone";
inline constexpr std::string_view kRegionLabel = "topology.kubernetes.io/region";
inline constexpr std::string_view kBetaZoneLabel = "failure-domain.beta.kubernetes.io/zone";
inline constexpr std::string_view kBetaRegionLabel = "failure-domain.beta.kubernetes.io/region";
// Between the zones in the label of a volume that is in several.
inline constexpr std::string_view kZoneDelimiter = "__";

// The labels by which the volume says where it is: those of its node affinity before its own, and
// the present names before those of the time before Kubernetes 1.17.
struct TopologyLabels {
  std::string_view zone;
  std::string_view region;
};
TopologyLabels FindTopologyLabels(const PersistentVolume& volume);

// The values of `key` in the volume's node affinity, each once, sorted.
std::vector<std::string> FindTopologyValues(const PersistentVolume& volume, std::string_view key);
void RenameTopologyKey(PersistentVolume& volume, std::string_view from, std::string_view to);
// Adds a requirement to each term of the node affinity. Zones are trimmed; without any nothing is
// added.
void AddTopology(PersistentVolume& volume, std::string_view key,
                 const std::vector<std::string>& zones);

// Gives the volume a label of its own.
void AddLabelIfAbsent(PersistentVolume& volume, std::string_view key, const std::string& value);

// In place of the zone label the node affinity gets `driver_key`. Without zones in it they are
// taken from the volume's labels.
void TranslateTopologyToCsi(PersistentVolume& volume, std::string_view driver_key);

// The region that all `zones` are in.
using RegionFinder = base::StatusOr<std::string> (*)(const std::vector<std::string>& zones);
// The reverse: the node affinity gets the zone label, and, if `find_region` is not null, the
// region's; the volume gets both as labels if it has none.
base::Status TranslateTopologyToInTree(PersistentVolume& volume, std::string_view driver_key,
                                       RegionFinder find_region);

// "multiple or no regions ..." if `regions` are not just one.
base::StatusOr<std::string> TakeOnlyRegion(const std::vector<std::string>& regions);

// A class's allowedTopologies with `driver_key` in place of the zone labels.
Json TranslateAllowedTopologies(const Json& terms, std::string_view driver_key);
// Sets the parameters of a class to `parameters`, and its allowedTopologies to `zones` if the class
// gave zones by parameters; else to the translated ones. An error if the class gave both.
base::Status SetParametersAndZones(StorageClass& storage_class, const Labels& parameters,
                                   const std::vector<std::string>& zones,
                                   std::string_view driver_key);
// The zones that a class's parameter "zone" or "zones" names; `key` is in lower case. Empty: it is
// another parameter.
std::vector<std::string> ReadZones(std::string_view key, const std::string& value);

}  // namespace berth::api::migration
