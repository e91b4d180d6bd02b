// Columns: PersistentVolume, PersistentVolumeClaim, the kinds of storage.k8s.io, HostMount.

#include "apiserver/documents/table_columns.h"

namespace berth::apiserver {

using base::json::Array;
using base::json::Bool;
using base::json::Find;
using base::json::String;

namespace {

std::string ShortAccessModes(const Json& modes) {
  constexpr std::pair<std::string_view, std::string_view> kShort[] = {{"ReadWriteOnce", "RWO"},
                                                                      {"ReadOnlyMany", "ROX"},
                                                                      {"ReadWriteMany", "RWX"},
                                                                      {"ReadWriteOncePod", "RWOP"}};
  std::string out;
  for (const auto& [mode, name] : kShort) {
    if (std::find(modes.begin(), modes.end(), mode) == modes.end()) continue;
    out += fmt::format("{}{}", out.empty() ? "" : ",", name);
  }
  return out;
}

Json SpecModesCell(const Json& object, base::WallTime) {
  return ShortAccessModes(Array(object, {"spec", "accessModes"}));
}

Json VolumeClaimCell(const Json& volume, base::WallTime) {
  if (Find(volume, {"spec", "claimRef"}) == nullptr) return "";
  return fmt::format("{}/{}", String(volume, {"spec", "claimRef", "namespace"}),
                     String(volume, {"spec", "claimRef", "name"}));
}

// A claim shows its capacity only after it has a volume.
Json ClaimCapacityCell(const Json& claim, base::WallTime) {
  const bool has_volume = !String(claim, {"spec", "volumeName"}).empty();
  return has_volume ? String(claim, {"status", "capacity", "storage"}) : "";
}

Json ClaimModesCell(const Json& claim, base::WallTime) {
  const bool has_volume = !String(claim, {"spec", "volumeName"}).empty();
  return has_volume ? ShortAccessModes(Array(claim, {"status", "accessModes"})) : "";
}

// The old annotation takes precedence over the field.
Json ClassCell(const Json& object, base::WallTime) {
  const std::string beta =
      String(object, {"metadata", "annotations", "volume.beta.kubernetes.io/storage-class"});
  return beta.empty() ? String(object, {"spec", "storageClassName"}) : beta;
}

Json ClassNameCell(const Json& object, base::WallTime now) {
  const std::string name = String(object, {"metadata", "name"});
  for (const char* key : {"storageclass.kubernetes.io/is-default-class",
                          "storageclass.beta.kubernetes.io/is-default-class"}) {
    if (String(object, {"metadata", "annotations", key}) == "true") return name + " (default)";
  }
  return name;
}

Json AttachRequiredCell(const Json& driver, base::WallTime) {
  return Bool(driver, {"spec", "attachRequired"}, true);
}

Json TokenRequestsCell(const Json& driver, base::WallTime) {
  if (Find(driver, {"spec", "tokenRequests"}) == nullptr) return std::string(kUnset);
  Json audiences = Json::array();
  for (const Json& token : Array(driver, {"spec", "tokenRequests"})) {
    audiences.push_back(String(token, {"audience"}));
  }
  return JoinTexts(audiences);
}

Json ModesCell(const Json& driver, base::WallTime) {
  return JoinTexts(Array(driver, {"spec", "volumeLifecycleModes"}));
}

constexpr Cell kAttributesClass = TextOrCell<"<unset>", "spec", "volumeAttributesClassName">;
constexpr Cell kVolumeMode = TextOrCell<"<unset>", "spec", "volumeMode">;

}  // namespace

void AddStorageColumns(ColumnMap& columns) {
  namespace kinds = api::kinds;
  columns[&kinds::kPersistentVolume] = {
      {"Name", NameCell},
      {"Capacity", TextCell<"spec", "capacity", "storage">},
      {"Access Modes", SpecModesCell},
      {"Reclaim Policy", TextCell<"spec", "persistentVolumeReclaimPolicy">},
      {"Status", PhaseOrTerminatingCell},
      {"Claim", VolumeClaimCell},
      {"StorageClass", ClassCell},
      {"VolumeAttributesClass", kAttributesClass},
      {"Reason", TextCell<"status", "reason">},
      {"Age", AgeCell},
      {"VolumeMode", kVolumeMode, true}};
  columns[&kinds::kPersistentVolumeClaim] = {{"Name", NameCell},
                                             {"Status", PhaseOrTerminatingCell},
                                             {"Volume", TextCell<"spec", "volumeName">},
                                             {"Capacity", ClaimCapacityCell},
                                             {"Access Modes", ClaimModesCell},
                                             {"StorageClass", ClassCell},
                                             {"VolumeAttributesClass", kAttributesClass},
                                             {"Age", AgeCell},
                                             {"VolumeMode", kVolumeMode, true}};
  columns[&kinds::kStorageClass] = {
      {"Name", ClassNameCell},
      {"Provisioner", TextCell<"provisioner">},
      {"ReclaimPolicy", TextOrCell<"Delete", "reclaimPolicy">},
      {"VolumeBindingMode", TextOrCell<"Immediate", "volumeBindingMode">},
      {"AllowVolumeExpansion", FlagCell<"allowVolumeExpansion">},
      {"Age", AgeCell}};
  columns[&kinds::kVolumeAttributesClass] = {
      {"Name", NameCell}, {"DriverName", TextCell<"driverName">}, {"Age", AgeCell}};
  columns[&kinds::kVolumeAttachment] = {
      {"Name", NameCell},
      {"Attacher", TextCell<"spec", "attacher">},
      {"PV", TextCell<"spec", "source", "persistentVolumeName">},
      {"Node", TextCell<"spec", "nodeName">},
      {"Attached", FlagCell<"status", "attached">, false, "boolean"},
      {"Age", AgeCell}};
  columns[&kinds::kCsiNode] = {{"Name", NameCell},
                               {"Drivers", CountCell<"spec", "drivers">, false, "integer"},
                               {"Age", AgeCell}};
  columns[&kinds::kCsiDriver] = {
      {"Name", NameCell},
      {"AttachRequired", AttachRequiredCell, false, "boolean"},
      {"PodInfoOnMount", FlagCell<"spec", "podInfoOnMount">, false, "boolean"},
      {"StorageCapacity", FlagCell<"spec", "storageCapacity">, false, "boolean"},
      {"TokenRequests", TokenRequestsCell},
      {"RequiresRepublish", FlagCell<"spec", "requiresRepublish">, false, "boolean"},
      {"Modes", ModesCell},
      {"Age", AgeCell}};
  // Kubernetes has no columns for this kind, and shows what all objects have.
  columns[&kinds::kCsiStorageCapacity] = {
      {"Name", NameCell}, {"Created At", TextCell<"metadata", "creationTimestamp">, false, "date"}};
  columns[&kinds::kHostMount] = {{"Name", NameCell},
                                 {"Node", TextCell<"spec", "nodeName">},
                                 {"Claim", TextCell<"spec", "claimName">},
                                 {"Path", TextCell<"spec", "path">},
                                 {"Status", PhaseOrTerminatingCell},
                                 {"Age", AgeCell},
                                 {"Message", TextCell<"status", "message">, true}};
}

}  // namespace berth::apiserver
