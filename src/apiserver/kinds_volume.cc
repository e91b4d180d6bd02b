// PersistentVolume and PersistentVolumeClaim.

#include "api/names.h"
#include "api/quantity.h"
#include "api/time.h"
#include "apiserver/kind_rules.h"

namespace berth::apiserver {

using base::json::Array;
using base::json::Bool;
using base::json::Find;
using base::json::Map;
using base::json::String;

namespace {

constexpr std::string_view kDefaultClass = "storageclass.kubernetes.io/is-default-class";
constexpr std::string_view kBetaClass = "volume.beta.kubernetes.io/storage-class";

// PersistentVolumeSpec's members that are not volume sources.
constexpr std::string_view kNotSources[] = {"capacity",
                                            "accessModes",
                                            "claimRef",
                                            "persistentVolumeReclaimPolicy",
                                            "storageClassName",
                                            "mountOptions",
                                            "volumeMode",
                                            "nodeAffinity",
                                            "volumeAttributesClassName"};

void CheckAccessModes(const Json& spec, FieldErrors& errors) {
  const Json& modes = Array(spec, {"accessModes"});
  if (modes.empty()) errors.Required("spec.accessModes");
  bool alone = false;
  for (const Json& mode : modes) {
    if (mode != "ReadWriteOnce" && mode != "ReadOnlyMany" && mode != "ReadWriteMany" &&
        mode != "ReadWriteOncePod") {
      errors.NotSupported("spec.accessModes", mode,
                          {"ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"});
    }
    alone |= mode == "ReadWriteOncePod";
  }
  if (alone && modes.size() > 1) {
    errors.Forbidden("spec.accessModes", "may not use ReadWriteOncePod with other access modes");
  }
}

void CheckClassName(const Json& spec, FieldErrors& errors) {
  const std::string name = String(spec, {"storageClassName"});
  if (!name.empty()) errors.Check("spec.storageClassName", name, api::CheckDns1123Subdomain(name));
}

// ---- PersistentVolumeClaim

void DefaultClaim(Json& object) {
  Default(object, {"spec", "volumeMode"}, "Filesystem");
  // dataSource and dataSourceRef say the same unless only the latter can.
  const Json* source = Find(object, {"spec", "dataSource"});
  const Json* reference = Find(object, {"spec", "dataSourceRef"});
  if (source != nullptr && reference == nullptr) {
    base::json::Set(object, {"spec", "dataSourceRef"}, Json(*source));
  } else if (source == nullptr && reference != nullptr && !reference->contains("namespace")) {
    base::json::Set(object, {"spec", "dataSource"}, Json(*reference));
  }
}

bool NamesClass(const Json& claim) {
  return Find(claim, {"spec", "storageClassName"}) != nullptr ||
         Find(claim, {"metadata", "annotations", kBetaClass}) != nullptr;
}

// The newest class that is marked as default (of equally old ones the first by name); empty if none
// is.
base::StatusOr<std::string> DefaultClassName(Lookup& lookup) {
  ASSIGN_OR_RETURN(const auto classes, lookup.List(api::kinds::kStorageClass));
  std::string newest;
  std::string name;
  for (const Json& one : classes) {
    if (String(one, {"metadata", "annotations", kDefaultClass}) != "true") continue;
    const std::string made = String(one, {"metadata", "creationTimestamp"});
    if (name.empty() || made > newest) {
      newest = made;
      name = String(one, {"metadata", "name"});
    }
  }
  return name;
}

base::Status AdmitClaim(Json& object, Lookup& lookup) {
  AddFinalizer(object, "kubernetes.io/pvc-protection");
  if (NamesClass(object)) return base::OkStatus();
  ASSIGN_OR_RETURN(const std::string name, DefaultClassName(lookup));
  if (!name.empty()) base::json::Set(object, {"spec", "storageClassName"}, name);
  return base::OkStatus();
}

api::Quantity SizeAt(const Json& object, base::json::Path path) {
  const auto quantity = api::Quantity::Parse(String(object, path));
  return quantity.ok() ? *quantity : api::Quantity();
}

// A bigger claim is for the class's driver to serve: refuse it where nobody would.
base::Status AdmitClaimUpdate(Json& object, const Json& old, Lookup& lookup) {
  if (SizeAt(object, {"spec", "resources", "requests", "storage"}) <=
      SizeAt(old, {"spec", "resources", "requests", "storage"})) {
    return base::OkStatus();
  }
  const std::string name = String(object, {"metadata", "name"});
  if (String(old, {"status", "phase"}) != "Bound")
    return base::OkStatus();  // validation refuses it
  const auto storage_class =
      lookup.Get(api::kinds::kStorageClass, "", String(object, {"spec", "storageClassName"}));
  if (!storage_class.ok() && storage_class.status().code() != base::StatusCode::kNotFound) {
    return storage_class.status();
  }
  if (!storage_class.ok() || !Bool(*storage_class, {"allowVolumeExpansion"})) {
    return ForbiddenError(
        api::kinds::kPersistentVolumeClaim, name,
        "only dynamically provisioned pvc can be resized and the storageclass that "
        "provisions the pvc must support resize");
  }
  return base::OkStatus();
}

void ValidateClaim(const Json& object, FieldErrors& errors) {
  const Json& spec = Map(object, {"spec"});
  CheckAccessModes(spec, errors);
  CheckPositiveQuantity(Find(spec, {"resources", "requests", "storage"}), "spec.resources[storage]",
                        errors);
  CheckOneOf(spec, {"volumeMode"}, "spec.volumeMode", {"Block", "Filesystem"}, errors);
  CheckClassName(spec, errors);
  for (const std::string_view source : {"dataSource", "dataSourceRef"}) {
    if (!spec.contains(std::string(source))) continue;
    CheckPresent(spec, {source, "kind"}, fmt::format("spec.{}.kind", source), errors);
    CheckPresent(spec, {source, "name"}, fmt::format("spec.{}.name", source), errors);
  }
}

// Immutable but for: the volume's name once, a class once if there was none, and the size when
// bound.
void UpdateClaim(const Json& object, const Json& old, FieldErrors& errors) {
  const bool bound = String(old, {"status", "phase"}) == "Bound";
  Json spec = Map(object, {"spec"});
  Json before = Map(old, {"spec"});
  if (String(before, {"volumeName"}).empty()) {
    spec.erase("volumeName");
    before.erase("volumeName");
  }
  if (!NamesClass(old)) spec.erase("storageClassName");
  if (bound) {
    for (Json* one : {&spec, &before}) {
      base::json::Remove(*one, {"resources", "requests"});
      one->erase("volumeAttributesClassName");
    }
  }
  if (spec != before) {
    return errors.Forbidden("spec",
                            "spec is immutable after creation except resources.requests and "
                            "volumeAttributesClassName for bound claims");
  }
  if (!bound) return;
  const auto size = SizeAt(object, {"spec", "resources", "requests", "storage"});
  const auto size_before = SizeAt(old, {"spec", "resources", "requests", "storage"});
  if (size < size_before && size <= SizeAt(old, {"status", "capacity", "storage"})) {
    errors.Forbidden("spec.resources.requests.storage",
                     "field can not be less than status.capacity");
  }
}

// ---- PersistentVolume

// The one volume source in a PersistentVolumeSpec.
std::vector<std::string> Sources(const Json& spec) {
  std::vector<std::string> sources;
  for (const auto& [key, value] : spec.items()) {
    if (std::find(std::begin(kNotSources), std::end(kNotSources), key) == std::end(kNotSources)) {
      sources.push_back(key);
    }
  }
  return sources;
}

void DefaultVolume(Json& object) {
  Default(object, {"spec", "volumeMode"}, "Filesystem");
  Default(object, {"spec", "persistentVolumeReclaimPolicy"}, "Retain");
}

base::Status AdmitVolume(Json& object, Lookup& lookup) {
  AddFinalizer(object, "kubernetes.io/pv-protection");
  return base::OkStatus();
}

void ValidateVolume(const Json& object, FieldErrors& errors) {
  const Json& spec = Map(object, {"spec"});
  CheckAccessModes(spec, errors);
  if (Map(spec, {"capacity"}).empty()) {
    errors.Required("spec.capacity");
  } else {
    CheckPositiveQuantity(Find(spec, {"capacity", "storage"}), "spec.capacity[storage]", errors);
  }
  CheckOneOf(spec, {"persistentVolumeReclaimPolicy"}, "spec.persistentVolumeReclaimPolicy",
             {"Delete", "Recycle", "Retain"}, errors);
  CheckOneOf(spec, {"volumeMode"}, "spec.volumeMode", {"Block", "Filesystem"}, errors);
  CheckClassName(spec, errors);

  const std::vector<std::string> sources = Sources(spec);
  if (sources.empty()) errors.Required("spec", "must specify a volume type");
  for (size_t i = 1; i < sources.size(); ++i) {
    errors.Forbidden("spec." + sources[i], "may not specify more than 1 volume type");
  }
  if (spec.contains("csi")) {
    CheckPresent(spec, {"csi", "driver"}, "spec.csi.driver", errors);
    CheckPresent(spec, {"csi", "volumeHandle"}, "spec.csi.volumeHandle", errors);
  }
  if (spec.contains("hostPath")) {
    CheckPresent(spec, {"hostPath", "path"}, "spec.hostPath.path", errors);
  }
  if (spec.contains("flexVolume")) {
    CheckPresent(spec, {"flexVolume", "driver"}, "spec.flexVolume.driver", errors);
  }
  if (spec.contains("local")) {
    CheckPresent(spec, {"local", "path"}, "spec.local.path", errors);
    if (!spec.contains("nodeAffinity")) {
      errors.Required("spec.nodeAffinity", "Local volume requires node affinity");
    }
  }
  if (spec.contains("nodeAffinity") &&
      Array(spec, {"nodeAffinity", "required", "nodeSelectorTerms"}).empty()) {
    errors.Required("spec.nodeAffinity.required.nodeSelectorTerms",
                    "must have at least one node selector term");
  }
}

void UpdateVolume(const Json& object, const Json& old, FieldErrors& errors) {
  const Json& spec = Map(object, {"spec"});
  const Json& before = Map(old, {"spec"});
  Json source = Json::object();
  Json source_before = Json::object();
  for (const std::string& key : Sources(spec)) source[key] = spec[key];
  for (const std::string& key : Sources(before)) source_before[key] = before[key];
  // A secret for expansion may come later: volumes are older than the wish to grow them.
  if (Find(source_before, {"csi", "controllerExpandSecretRef"}) == nullptr) {
    base::json::Remove(source, {"csi", "controllerExpandSecretRef"});
  }
  if (source != source_before) {
    errors.Forbidden("spec.persistentvolumesource",
                     "spec.persistentvolumesource is immutable after creation");
  }
  errors.Immutable("spec.volumeMode", Find(spec, {"volumeMode"}), Find(before, {"volumeMode"}));
  if (before.contains("nodeAffinity")) {
    errors.Immutable("spec.nodeAffinity", Find(spec, {"nodeAffinity"}),
                     Find(before, {"nodeAffinity"}));
  }
}

void AdmitVolumeStatus(Json& object, const Json& old, base::WallTime now) {
  if (String(object, {"status", "phase"}) == String(old, {"status", "phase"})) return;
  base::json::Set(object, {"status", "lastPhaseTransitionTime"}, api::FormatTime(now));
}

}  // namespace

void AddVolumeRules(std::vector<KindRules>& rules) {
  KindRules claim(api::kinds::kPersistentVolumeClaim);
  claim.delete_returns_object = true;
  claim.status_keeps_metadata = true;
  claim.initial_status = {{"phase", "Pending"}};
  claim.defaults = DefaultClaim;
  claim.admit_create = AdmitClaim;
  claim.admit_update = AdmitClaimUpdate;
  claim.validate = ValidateClaim;
  claim.validate_update = UpdateClaim;
  rules.push_back(claim);

  KindRules volume(api::kinds::kPersistentVolume);
  volume.delete_returns_object = true;
  volume.status_keeps_metadata = true;
  volume.initial_status = {{"phase", "Pending"}};
  volume.defaults = DefaultVolume;
  volume.admit_create = AdmitVolume;
  volume.admit_status = AdmitVolumeStatus;
  volume.validate = ValidateVolume;
  volume.validate_update = UpdateVolume;
  rules.push_back(volume);
}

}  // namespace berth::apiserver
