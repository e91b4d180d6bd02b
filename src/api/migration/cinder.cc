// OpenStack Cinder.
#include "api/migration/plugin.h"
#include "api/migration/topology.h"

namespace berth::api::migration {

using base::StatusOr;

namespace {

constexpr char kCinderZoneKey[] = "topology.cinder.csi.openstack.org/zone";

// The driver knows all parameters of the plugin, "availability" as well.
StatusOr<StorageClass> TranslateCinderClass(StorageClass storage_class) {
  Labels parameters;
  for (const auto& [key, value] : storage_class.parameters()) {
    parameters[ToLower(key) == kFsType ? kCsiFsType : key] = value;
  }
  RETURN_IF_ERROR(SetParametersAndZones(storage_class, parameters, {}, kCinderZoneKey));
  return storage_class;
}

Json MakeCinderCsi(const Json& source) {
  return MakeCsiSource({.driver = kCinder.driver,
                        .handle = base::json::String(source, {"volumeID"}),
                        .fs_type = base::json::String(source, {"fsType"}),
                        .read_only = base::json::Bool(source, {"readOnly"})});
}

StatusOr<PersistentVolume> TranslateCinderInline(const Json& volume, std::string_view /*ns*/) {
  const Json& source = base::json::Map(volume, {kCinder.source});
  return MakeInlineVolume(
      fmt::format("{}-{}", kCinder.driver, base::json::String(source, {"volumeID"})),
      MakeCinderCsi(source), "ReadWriteOnce");
}

StatusOr<PersistentVolume> TranslateCinderToCsi(PersistentVolume volume) {
  Json csi = MakeCinderCsi(base::json::Map(volume.json(), {"spec", kCinder.source}));
  TranslateTopologyToCsi(volume, kCinderZoneKey);
  return ReplaceSource(std::move(volume), kCinder.source, "csi", std::move(csi));
}

StatusOr<PersistentVolume> TranslateCinderToInTree(PersistentVolume volume) {
  const CsiSource csi = volume.csi();
  Json source = WithoutEmpty({{"fsType", csi.fs_type()}, {"readOnly", csi.read_only()}});
  source["volumeID"] = csi.volume_handle();
  // The region cannot be told from the zone.
  RETURN_IF_ERROR(TranslateTopologyToInTree(volume, kCinderZoneKey, nullptr));
  return ReplaceSource(std::move(volume), "csi", kCinder.source, std::move(source));
}

}  // namespace

const Plugin kCinder = {.name = "kubernetes.io/cinder",
                        .driver = "cinder.csi.openstack.org",
                        .source = "cinder",
                        .translate_class = &TranslateCinderClass,
                        .to_csi = &TranslateCinderToCsi,
                        .to_in_tree = &TranslateCinderToInTree,
                        .translate_inline = &TranslateCinderInline};

}  // namespace berth::api::migration
