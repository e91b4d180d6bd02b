// Azure Disk. Only managed disks have a driver.
#include <algorithm>

#include "api/migration/plugin.h"
#include "api/migration/topology.h"

namespace berth::api::migration {

using base::Error;
using base::StatusCode;
using base::StatusOr;

namespace {

constexpr std::string_view kAzureZoneKey = "topology.disk.csi.azure.com/zone";
constexpr char kManaged[] = "Managed";
constexpr char kCachingMode[] = "cachingmode";

// In a region without zones the plugin's zone is a number, a failure domain, and the driver's is
// "".
void ClearFailureDomains(StorageClass& storage_class) {
  if (storage_class.allowed_topologies().empty()) return;
  for (Json& term : storage_class.mutable_json()["allowedTopologies"]) {
    if (base::json::Array(term, {"matchLabelExpressions"}).empty()) continue;
    for (Json& requirement : term["matchLabelExpressions"]) {
      if (base::json::String(requirement, {"key"}) != kAzureZoneKey) continue;
      std::vector<std::string> zones =
          base::json::Strings(base::json::Array(requirement, {"values"}));
      for (std::string& zone : zones) {
        if (zone.find_first_not_of("0123456789") == std::string::npos) zone.clear();
      }
      requirement["values"] = zones;
    }
  }
}

StatusOr<StorageClass> TranslateAzureDiskClass(StorageClass storage_class) {
  Labels parameters;
  std::vector<std::string> zones;
  for (const auto& [key, value] : storage_class.parameters()) {
    if (auto found = ReadZones(ToLower(key), value); !found.empty()) {
      zones = std::move(found);
    } else {
      parameters[key] = value;
    }
  }
  RETURN_IF_ERROR(SetParametersAndZones(storage_class, parameters, zones, kAzureZoneKey));
  ClearFailureDomains(storage_class);
  return storage_class;
}

enum class EmptyCachingMode { kKept, kLeftOut };

StatusOr<Json> MakeAzureDiskCsi(const Json& source, EmptyCachingMode empty) {
  const std::string kind = base::json::String(source, {"kind"}, kManaged);
  if (ToLower(kind) != ToLower(kManaged)) {
    return Error(StatusCode::kInvalidArgument, "kind({}) is not supported in csi migration", kind);
  }
  Labels attributes = {{"kind", kManaged}};
  if (const Json* mode = base::json::Find(source, {"cachingMode"});
      mode != nullptr && mode->is_string() && (empty == EmptyCachingMode::kKept || *mode != "")) {
    attributes[kCachingMode] = mode->get<std::string>();
  }
  if (const Json* fs_type = base::json::Find(source, {"fsType"});
      fs_type != nullptr && fs_type->is_string()) {
    attributes[kFsType] = fs_type->get<std::string>();
  }
  return MakeCsiSource({.driver = kAzureDisk.driver,
                        .handle = base::json::String(source, {"diskURI"}),
                        .fs_type = base::json::String(source, {"fsType"}),
                        .read_only = base::json::Bool(source, {"readOnly"}),
                        .attributes = std::move(attributes)});
}

StatusOr<PersistentVolume> TranslateAzureDiskInline(const Json& volume, std::string_view /*ns*/) {
  const Json& source = base::json::Map(volume, {kAzureDisk.source});
  ASSIGN_OR_RETURN(Json csi, MakeAzureDiskCsi(source, EmptyCachingMode::kLeftOut));
  return MakeInlineVolume(base::json::String(source, {"diskURI"}), std::move(csi), "ReadWriteOnce");
}

StatusOr<PersistentVolume> TranslateAzureDiskToCsi(PersistentVolume volume) {
  ASSIGN_OR_RETURN(Json csi,
                   MakeAzureDiskCsi(base::json::Map(volume.json(), {"spec", kAzureDisk.source}),
                                    EmptyCachingMode::kKept));
  return ReplaceSource(std::move(volume), kAzureDisk.source, "csi", std::move(csi));
}

StatusOr<std::string> FindDiskName(const std::string& uri) {
  const bool managed = uri.size() <= 4 || ToLower(uri.substr(0, 4)) != "http";
  const std::optional<std::string> name =
      managed ? FindAfterLast(uri, {"/subscriptions/", "/resourceGroups/",
                                    "/providers/Microsoft.Compute/disks/"})
              : FindAfterLast(uri, {"http", "://", "/vhds/"});
  if (name.has_value()) return *name;
  return Error(StatusCode::kInvalidArgument, "could not get disk name from {}, correct format: {}",
               uri,
               managed ? ".*/subscriptions/(?:.*)/resourceGroups/(?:.*)/providers/"
                         "Microsoft.Compute/disks/(.+)"
                       : "http(?:.*)://(?:.*)/vhds/(.+)");
}

StatusOr<PersistentVolume> TranslateAzureDiskToInTree(PersistentVolume volume) {
  const CsiSource csi = volume.csi();
  ASSIGN_OR_RETURN(const std::string name, FindDiskName(csi.volume_handle()));
  Json source = {{"diskName", name},
                 {"diskURI", csi.volume_handle()},
                 {"fsType", csi.fs_type()},
                 {"readOnly", csi.read_only()},
                 {"kind", kManaged}};
  for (const auto& [key, value] : csi.volume_attributes()) {
    const std::string lower = ToLower(key);
    if (value.empty()) continue;
    if (lower == kCachingMode) source["cachingMode"] = value;
    if (lower == kFsType) source["fsType"] = value;
  }
  return ReplaceSource(std::move(volume), "csi", kAzureDisk.source, std::move(source));
}

}  // namespace

const Plugin kAzureDisk = {.name = "kubernetes.io/azure-disk",
                           .driver = "disk.csi.azure.com",
                           .source = "azureDisk",
                           .translate_class = &TranslateAzureDiskClass,
                           .to_csi = &TranslateAzureDiskToCsi,
                           .to_in_tree = &TranslateAzureDiskToInTree,
                           .translate_inline = &TranslateAzureDiskInline};

}  // namespace berth::api::migration
