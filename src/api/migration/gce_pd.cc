// Google Compute Engine's persistent disks. A handle is "projects/PROJECT/zones/ZONE/disks/DISK",
// or the same with "regions/REGION". The plugin's source has the disk's name alone, so that the
// translated handle leaves out what is not known: the driver finds it out, and RepairGceHandle
// fills it in.
#include <algorithm>

#include "api/migration/plugin.h"
#include "api/migration/topology.h"

namespace berth::api::migration {

using base::Error;
using base::StatusCode;
using base::StatusOr;

namespace {

constexpr std::string_view kGceZoneKey = "topology.gke.io/zone";
constexpr std::string_view kUnspecified = "UNSPECIFIED";

// The places of a handle's parts between its '/', and of a node's id,
// "projects/PROJECT/zones/ZONE/instances/NAME".
constexpr size_t kProject = 1;
constexpr size_t kScope = 2;  // "zones" or "regions"
constexpr size_t kZone = 3;   // or the region
constexpr size_t kDisk = 5;
constexpr size_t kParts = 6;

StatusOr<StorageClass> TranslateGceClass(StorageClass storage_class) {
  Labels parameters;
  std::vector<std::string> zones;
  for (const auto& [key, value] : storage_class.parameters()) {
    const std::string lower = ToLower(key);
    if (auto found = ReadZones(lower, value); !found.empty()) {
      zones = std::move(found);
    } else {
      parameters[lower == kFsType ? kCsiFsType : key] = value;
    }
  }
  RETURN_IF_ERROR(SetParametersAndZones(storage_class, parameters, zones, kGceZoneKey));
  return storage_class;
}

// Zones look like us-central1-a.
StatusOr<std::string> FindGceRegion(const std::vector<std::string>& zones) {
  if (zones.empty()) return Error(StatusCode::kInvalidArgument, "no zones specified");
  std::vector<std::string> regions;
  for (const std::string& zone : zones) {
    const std::vector<std::string> parts = Split(zone, "-");
    if (parts.size() != 3) {
      return Error(StatusCode::kInvalidArgument,
                   "zone in unexpected format, expected: {{locale}}-{{region}}-{{zone}}, got: {}",
                   zone);
    }
    regions.push_back(fmt::format("{}-{}", parts[0], parts[1]));
  }
  return TakeOnlyRegion(regions);
}

// The plugin took any modes and attached the disk for one writer. The driver refuses ReadWriteMany,
// and CSI has no mode for ReadWriteOnce and ReadOnlyMany together.
std::vector<std::string> TranslateModes(const std::vector<std::string>& modes) {
  const auto has = [&](std::string_view mode) {
    return std::ranges::find(modes, mode) != modes.end();
  };
  const bool only_reads = has("ReadOnlyMany") && !has("ReadWriteOnce") && !has("ReadWriteMany");
  return {only_reads ? "ReadOnlyMany" : "ReadWriteOnce"};
}

std::string MakeHandle(std::string_view project, std::string_view scope, std::string_view zone,
                       std::string_view disk) {
  return fmt::format("projects/{}/{}/{}/disks/{}", project, scope, zone, disk);
}

Json MakeGceCsi(const Json& source, const std::string& handle) {
  const int64_t partition = base::json::Int(source, {"partition"});
  return MakeCsiSource(
      {.driver = kGcePd.driver,
       .handle = handle,
       .fs_type = base::json::String(source, {"fsType"}),
       .read_only = base::json::Bool(source, {"readOnly"}),
       .attributes = {{"partition", partition == 0 ? "" : fmt::format("{}", partition)}}});
}

StatusOr<PersistentVolume> TranslateGceInline(const Json& volume, std::string_view /*ns*/) {
  const Json& source = base::json::Map(volume, {kGcePd.source});
  const std::string disk = base::json::String(source, {"pdName"});
  return MakeInlineVolume(
      fmt::format("{}-{}", kGcePd.driver, disk),
      MakeGceCsi(source, MakeHandle(kUnspecified, "zones", kUnspecified, disk)),
      base::json::Bool(source, {"readOnly"}) ? "ReadOnlyMany" : "ReadWriteOnce");
}

// A volume with several zones is a regional disk.
StatusOr<std::string> FindHandle(const PersistentVolume& volume, const std::string& disk) {
  std::string label = volume.label(kBetaZoneLabel);
  if (label.empty()) label = volume.label(kZoneLabel);
  const std::vector<std::string> zones = Split(label, kZoneDelimiter);
  if (zones.size() == 1) {
    const std::string_view zone = label.empty() ? kUnspecified : std::string_view(label);
    return MakeHandle(kUnspecified, "zones", zone, disk);
  }
  const StatusOr<std::string> region = FindGceRegion(zones);
  if (!region.ok()) {
    return Error(StatusCode::kInvalidArgument, "failed to get region from zones: {}",
                 base::Message(region.status()));
  }
  return MakeHandle(kUnspecified, "regions", *region, disk);
}

StatusOr<PersistentVolume> TranslateGceToCsi(PersistentVolume volume) {
  const Json& source = base::json::Map(volume.json(), {"spec", kGcePd.source});
  ASSIGN_OR_RETURN(const std::string handle,
                   FindHandle(volume, base::json::String(source, {"pdName"})));
  Json csi = MakeGceCsi(source, handle);
  TranslateTopologyToCsi(volume, kGceZoneKey);
  if (!volume.access_modes().empty()) {
    volume.Set({"spec", "accessModes"}, TranslateModes(volume.access_modes()));
  }
  return ReplaceSource(std::move(volume), kGcePd.source, "csi", std::move(csi));
}

StatusOr<PersistentVolume> TranslateGceToInTree(PersistentVolume volume) {
  const CsiSource csi = volume.csi();
  const std::vector<std::string> parts = Split(csi.volume_handle(), "/");
  if (parts.size() < kParts) {
    return Error(StatusCode::kInvalidArgument,
                 "failed to get id components.Got: {}, wanted {} components or more. ",
                 parts.size(), kParts);
  }
  int32_t partition = 0;
  const Labels attributes = csi.volume_attributes();
  if (const auto text = attributes.find("partition");
      text != attributes.end() && !text->second.empty()) {
    const StatusOr<int32_t> parsed = ParsePartition(text->second);
    if (!parsed.ok()) {
      return Error(StatusCode::kInvalidArgument, "Failed to convert partition {} to integer: {}",
                   text->second, base::Message(parsed.status()));
    }
    partition = *parsed;
  }
  Json source = WithoutEmpty(
      {{"fsType", csi.fs_type()}, {"readOnly", csi.read_only()}, {"partition", partition}});
  source["pdName"] = parts[kDisk];
  RETURN_IF_ERROR(TranslateTopologyToInTree(volume, kGceZoneKey, &FindGceRegion));
  return ReplaceSource(std::move(volume), "csi", kGcePd.source, std::move(source));
}

StatusOr<std::string> RepairGceHandle(const std::string& handle, const std::string& node_id) {
  const std::vector<std::string> parts = Split(handle, "/");
  if (parts.size() < kParts) {
    return Error(StatusCode::kInvalidArgument,
                 "volume handle has wrong number of elements; got {}, wanted {} or more",
                 parts.size(), kParts);
  }
  if (parts[kProject] != kUnspecified) return handle;
  const std::vector<std::string> node = Split(node_id, "/");
  if (node.size() < kParts) {
    return Error(StatusCode::kInvalidArgument,
                 "node handle has wrong number of elements; got {}, wanted {} or more", node.size(),
                 kParts);
  }
  const std::string& scope = parts[kScope];
  if (scope != "zones" && scope != "regions") {
    return Error(StatusCode::kInvalidArgument,
                 "expected volume handle to have zones or regions regionality value, got: {}",
                 scope);
  }
  std::string zone = parts[kZone];
  if (zone == kUnspecified && scope == "zones") zone = node[kZone];
  if (zone == kUnspecified) {
    const StatusOr<std::string> region = FindGceRegion({node[kZone]});
    if (!region.ok()) {
      return Error(StatusCode::kInvalidArgument, "failed to get region from zone {}: {}",
                   node[kZone], base::Message(region.status()));
    }
    zone = *region;
  }
  return MakeHandle(node[kProject], scope, zone, parts[kDisk]);
}

}  // namespace

const Plugin kGcePd = {.name = "kubernetes.io/gce-pd",
                       .driver = "pd.csi.storage.gke.io",
                       .source = "gcePersistentDisk",
                       .translate_class = &TranslateGceClass,
                       .to_csi = &TranslateGceToCsi,
                       .to_in_tree = &TranslateGceToInTree,
                       .translate_inline = &TranslateGceInline,
                       .repair_handle = &RepairGceHandle};

}  // namespace berth::api::migration
