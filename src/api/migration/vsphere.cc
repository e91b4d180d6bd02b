// vSphere. The plugin knows a volume by its path, the driver by an id; asked with "csimigration",
// the driver says the path, and takes it for an id.
#include <map>

#include "api/migration/plugin.h"
#include "api/migration/topology.h"

namespace berth::api::migration {

using base::StatusOr;

namespace {

constexpr std::string_view kVsphereZoneKey = "topology.csi.vmware.com/zone";
constexpr std::string_view kVsphereRegionKey = "topology.csi.vmware.com/region";
constexpr char kStoragePolicy[] = "storagepolicyname";
constexpr char kVolumePath[] = "initialvolumefilepath";

// The driver's name for a parameter of the plugin, in lower case; "": the driver has none.
std::string DriverParameter(const std::string& lower) {
  static const std::map<std::string, std::string> names = {
      {kFsType, kCsiFsType},
      {kStoragePolicy, kStoragePolicy},
      {"datastore", "datastore-migrationparam"},
      {"diskformat", "diskformat-migrationparam"},
      {"hostfailurestotolerate", "hostfailurestotolerate-migrationparam"},
      {"forceprovisioning", "forceprovisioning-migrationparam"},
      {"cachereservation", "cachereservation-migrationparam"},
      {"diskstripes", "diskstripes-migrationparam"},
      {"objectspacereservation", "objectspacereservation-migrationparam"},
      {"iopslimit", "iopslimit-migrationparam"}};
  const auto it = names.find(lower);
  return it == names.end() ? "" : it->second;
}

StatusOr<StorageClass> TranslateVsphereClass(StorageClass storage_class) {
  Labels parameters = {{"csimigration", "true"}};
  for (const auto& [key, value] : storage_class.parameters()) {
    if (const std::string name = DriverParameter(ToLower(key)); !name.empty()) {
      parameters[name] = value;
    }
  }
  RETURN_IF_ERROR(SetParametersAndZones(storage_class, parameters, {}, kVsphereZoneKey));
  return storage_class;
}

Json MakeVsphereCsi(const Json& source) {
  Labels attributes;
  if (const std::string policy = base::json::String(source, {"storagePolicyName"});
      !policy.empty()) {
    attributes[kStoragePolicy] = policy;
  }
  return MakeCsiSource({.driver = kVsphere.driver,
                        .handle = base::json::String(source, {"volumePath"}),
                        .fs_type = base::json::String(source, {"fsType"}),
                        .attributes = std::move(attributes)});
}

// The library panics at an inline volume with a storage policy; here the policy is translated.
StatusOr<PersistentVolume> TranslateVsphereInline(const Json& volume, std::string_view /*ns*/) {
  const Json& source = base::json::Map(volume, {kVsphere.source});
  return MakeInlineVolume(
      fmt::format("{}-{}", kVsphere.driver, base::json::String(source, {"volumePath"})),
      MakeVsphereCsi(source), "ReadWriteOnce");
}

// Where the node affinity lacks `label`, the volume's own label counts.
void TranslateLabel(PersistentVolume& volume, std::string_view label, std::string_view driver_key) {
  if (!FindTopologyValues(volume, label).empty()) {
    RenameTopologyKey(volume, label, driver_key);
  } else {
    AddTopology(volume, driver_key, {volume.label(label)});
  }
}

StatusOr<PersistentVolume> TranslateVsphereToCsi(PersistentVolume volume) {
  Json csi = MakeVsphereCsi(base::json::Map(volume.json(), {"spec", kVsphere.source}));
  const TopologyLabels labels = FindTopologyLabels(volume);
  TranslateLabel(volume, labels.zone, kVsphereZoneKey);
  TranslateLabel(volume, labels.region, kVsphereRegionKey);
  return ReplaceSource(std::move(volume), kVsphere.source, "csi", std::move(csi));
}

StatusOr<PersistentVolume> TranslateVsphereToInTree(PersistentVolume volume) {
  const CsiSource csi = volume.csi();
  Json source = WithoutEmpty({{"fsType", csi.fs_type()}});
  const Labels attributes = csi.volume_attributes();
  const auto path = attributes.find(kVolumePath);
  source["volumePath"] = path == attributes.end() ? "" : path->second;
  const TopologyLabels labels = FindTopologyLabels(volume);
  RenameTopologyKey(volume, kVsphereZoneKey, labels.zone);
  RenameTopologyKey(volume, kVsphereRegionKey, labels.region);
  for (const std::string_view label : {labels.zone, labels.region}) {
    const std::vector<std::string> values = FindTopologyValues(volume, label);
    if (!values.empty()) AddLabelIfAbsent(volume, label, values.front());
  }
  return ReplaceSource(std::move(volume), "csi", kVsphere.source, std::move(source));
}

}  // namespace

const Plugin kVsphere = {.name = "kubernetes.io/vsphere-volume",
                         .driver = "csi.vsphere.vmware.com",
                         .source = "vsphereVolume",
                         .translate_class = &TranslateVsphereClass,
                         .to_csi = &TranslateVsphereToCsi,
                         .to_in_tree = &TranslateVsphereToInTree,
                         .translate_inline = &TranslateVsphereInline};

}  // namespace berth::api::migration
