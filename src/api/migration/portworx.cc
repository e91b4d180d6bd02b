// Portworx. A secret of Portworx' own parameters or annotations is given to every call of the
// driver.
#include <array>

#include "api/migration/plugin.h"

namespace berth::api::migration {

using base::StatusOr;

namespace {

constexpr char kAuthSecretName[] = "openstorage.io/auth-secret-name";
constexpr char kAuthSecretNamespace[] = "openstorage.io/auth-secret-namespace";
constexpr std::array kSecretUses = {"provisioner",  "controller-publish", "node-stage",
                                    "node-publish", "controller-expand",  "node-expand"};
constexpr std::array kSecretFields = {"controllerPublishSecretRef", "nodeStageSecretRef",
                                      "nodePublishSecretRef", "controllerExpandSecretRef",
                                      "nodeExpandSecretRef"};

StatusOr<StorageClass> TranslatePortworxClass(StorageClass storage_class) {
  Labels parameters;
  for (const auto& [key, value] : storage_class.parameters()) {
    const std::string lower = ToLower(key);
    if (lower != kAuthSecretName && lower != kAuthSecretNamespace) {
      parameters[key] = value;
      continue;
    }
    for (const char* use : kSecretUses) {
      parameters[fmt::format("csi.storage.k8s.io/{}-secret-{}", use,
                             lower == kAuthSecretName ? "name" : "namespace")] = value;
    }
  }
  if (!parameters.empty()) storage_class.Set({"parameters"}, parameters);
  storage_class.Set({"provisioner"}, kPortworx.driver);
  return storage_class;
}

Json MakePortworxCsi(const Json& source) {
  return MakeCsiSource({.driver = kPortworx.driver,
                        .handle = base::json::String(source, {"volumeID"}),
                        .fs_type = base::json::String(source, {"fsType"})});
}

StatusOr<PersistentVolume> TranslatePortworxInline(const Json& volume, std::string_view /*ns*/) {
  const Json& source = base::json::Map(volume, {kPortworx.source});
  return MakeInlineVolume(
      fmt::format("{}-{}", kPortworx.driver, base::json::String(source, {"volumeID"})),
      MakePortworxCsi(source),
      base::json::Bool(source, {"readOnly"}) ? "ReadOnlyMany" : "ReadWriteOnce");
}

StatusOr<PersistentVolume> TranslatePortworxToCsi(PersistentVolume volume) {
  Json csi = MakePortworxCsi(base::json::Map(volume.json(), {"spec", kPortworx.source}));
  if (volume.has_annotation(kAuthSecretName) && volume.has_annotation(kAuthSecretNamespace)) {
    for (const char* field : kSecretFields) {
      csi[field] = WithoutEmpty({{"name", volume.annotation(kAuthSecretName)},
                                 {"namespace", volume.annotation(kAuthSecretNamespace)}});
    }
  }
  return ReplaceSource(std::move(volume), kPortworx.source, "csi", std::move(csi));
}

StatusOr<PersistentVolume> TranslatePortworxToInTree(PersistentVolume volume) {
  const CsiSource csi = volume.csi();
  Json source = WithoutEmpty({{"fsType", csi.fs_type()}, {"readOnly", csi.read_only()}});
  source["volumeID"] = csi.volume_handle();
  return ReplaceSource(std::move(volume), "csi", kPortworx.source, std::move(source));
}

}  // namespace

const Plugin kPortworx = {.name = "kubernetes.io/portworx-volume",
                          .driver = "pxd.portworx.com",
                          .source = "portworxVolume",
                          .translate_class = &TranslatePortworxClass,
                          .to_csi = &TranslatePortworxToCsi,
                          .to_in_tree = &TranslatePortworxToInTree,
                          .translate_inline = &TranslatePortworxInline};

}  // namespace berth::api::migration
