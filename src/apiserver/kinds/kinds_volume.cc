// PersistentVolume and PersistentVolumeClaim.

#include "api/names.h"
#include "api/quantity.h"
#include "api/time.h"
#include "apiserver/kinds/kind_rules.h"
#include "apiserver/kinds/spec_checks.h"
#include "apiserver/kinds/volume_specs.h"

namespace berth::apiserver {

using base::json::Bool;
using base::json::Find;
using base::json::Map;
using base::json::String;

namespace {

constexpr std::string_view kDefaultClass = "storageclass.kubernetes.io/is-default-class";
constexpr std::string_view kBetaClass = "volume.beta.kubernetes.io/storage-class";

// ---- PersistentVolumeClaim

void DefaultClaim(Json& object) {
  Json& spec = object["spec"];
  DefaultClaimSpec(spec);
  // dataSource and dataSourceRef are made equal, unless only dataSourceRef can name the source.
  const Json* source = Find(spec, {"dataSource"});
  const Json* reference = Find(spec, {"dataSourceRef"});
  if (source != nullptr && reference == nullptr) {
    spec["dataSourceRef"] = Json(*source);
  } else if (source == nullptr && reference != nullptr && !reference->contains("namespace")) {
    spec["dataSource"] = Json(*reference);
  }
}

bool HasClass(const Json& claim) {
  return Find(claim, {"spec", "storageClassName"}) != nullptr ||
         Find(claim, {"metadata", "annotations", kBetaClass}) != nullptr;
}

// The newest class that is marked as default (of equally old ones the first by name); empty if none
// is.
base::StatusOr<std::string> FindDefaultClass(Lookup& lookup) {
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
  if (HasClass(object)) return base::OkStatus();
  ASSIGN_OR_RETURN(const std::string name, FindDefaultClass(lookup));
  if (!name.empty()) base::json::Set(object, {"spec", "storageClassName"}, name);
  return base::OkStatus();
}

api::Quantity SizeAt(const Json& object, base::json::Path path) {
  const auto quantity = api::Quantity::Parse(String(object, path));
  return quantity.ok() ? *quantity : api::Quantity();
}

// Refuses to enlarge a claim if its class does not allow expansion, because no driver would expand
// the volume.
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

void ValidateClaim(const Json& json, FieldErrors& errors) {
  ValidateClaimSpec(Checked(json, errors)["spec"]);
}

// A claim's spec is immutable, with these exceptions: the volume's name can be set once, the class
// can be set once if there was none, and the size and the attributes class can change when bound.
void ValidateClaimUpdate(const Json& json, const Json& old, FieldErrors& errors) {
  const Checked object(json, old, errors);
  const bool bound = String(old, {"status", "phase"}) == "Bound";
  Json spec = Map(json, {"spec"});
  Json before = Map(old, {"spec"});
  if (String(before, {"volumeName"}).empty()) {
    spec.erase("volumeName");
    before.erase("volumeName");
  }
  const Checked beta = object["metadata"]["annotations"][kBetaClass];
  const Checked name = object["spec"]["storageClassName"];
  if (name.old().is_null() && (beta.old().is_null() || beta.old() == name.json())) {
    spec.erase("storageClassName");
  }
  // The class may move from the beta annotation to the field.
  const bool taken_over = name.old().is_null() && beta.old().is_string() &&
                          beta.old() == name.json() && !beta.present();
  if (!taken_over) beta.Immutable();
  if (bound) {
    for (Json* one : {&spec, &before}) {
      base::json::Remove(*one, {"resources", "requests", "storage"});
      one->erase("volumeAttributesClassName");
    }
  }
  if (spec != before) {
    object["spec"].Forbidden(
        "spec is immutable after creation except resources.requests and "
        "volumeAttributesClassName for bound claims");
  }
  const auto size = SizeAt(json, {"spec", "resources", "requests", "storage"});
  const auto size_before = SizeAt(old, {"spec", "resources", "requests", "storage"});
  if (size < size_before && size <= SizeAt(old, {"status", "capacity", "storage"})) {
    object["spec"]["resources"]["requests"]["storage"].Forbidden(
        "field can not be less than status.capacity");
  }
  // The attributes class cannot be removed, because a volume that had a class always has one.
  const Checked attributes = object["spec"]["volumeAttributesClassName"];
  if (Find(old, {"status", "currentVolumeAttributesClassName"}) != nullptr &&
      attributes.changed() && !attributes.given()) {
    attributes.Forbidden(
        fmt::format("update to {} is forbidden when status.currentVolumeAttributesClassName is "
                    "not nil",
                    attributes.present() ? "empty string" : "nil"));
  }
}

// Among allocated resources, "storage" is the only name without a domain.
void CheckAllocatedName(const Checked& at, const std::string& name) {
  if (const base::Status valid = api::CheckQualifiedName(name); !valid.ok()) {
    at.Invalid(name, base::Message(valid));
  } else if (name != "storage" &&
             (name.find('/') == std::string::npos || name.starts_with("kubernetes.io/"))) {
    at.NotSupported({"storage"});
  }
}

void ValidateClaimStatus(const Json& json, const Json& old, FieldErrors& errors) {
  const Checked status = Checked(json, old, errors)["status"];
  for (const auto& [name, amount] : status["capacity"].Entries()) amount.NonNegativeQuantity();
  for (const auto& [name, state] : status["allocatedResourceStatuses"].Entries()) {
    const Checked at = state.Named("status.allocatedResourceStatuses");
    CheckAllocatedName(at, name);
    at.OneOf({"ControllerResizeInProgress", "ControllerResizeInfeasible", "NodeResizeInProgress",
              "NodeResizeInfeasible", "NodeResizePending"});
  }
  for (const auto& [name, amount] : status["allocatedResources"].Entries()) {
    CheckAllocatedName(amount.Named("status.allocatedResources"), name);
    amount.NonNegativeQuantity();
  }
}

// ---- PersistentVolume

void DefaultPersistentVolume(Json& object) {
  SetDefault(object, {"spec", "volumeMode"}, "Filesystem");
  SetDefault(object, {"spec", "persistentVolumeReclaimPolicy"}, "Retain");
  DefaultSource(object["spec"]);
}

base::Status AdmitVolume(Json& object, Lookup&) {
  AddFinalizer(object, "kubernetes.io/pv-protection");
  base::json::Set(object, {"status", "lastPhaseTransitionTime"},
                  String(object, {"metadata", "creationTimestamp"}));
  return base::OkStatus();
}

void ValidateVolume(const Json& json, FieldErrors& errors) {
  const Checked spec = Checked(json, errors)["spec"];
  ValidateVolumeSpec(spec);
  CheckIscsiLength(spec["iscsi"], String(json, {"metadata", "name"}),
                   spec["iscsi"]["targetPortal"].Named("spec.iscsi.targetportal"));
}

Json SourcesIn(const Json& spec) {
  Json sources = Json::object();
  for (const auto& [key, value] : spec.items()) {
    if (IsSource(key, SourcePlace::kVolume)) sources[key] = value;
  }
  return sources;
}

void ValidateVolumeUpdate(const Json& json, const Json& old, FieldErrors& errors) {
  const Checked spec = Checked(json, old, errors)["spec"];
  Json source = SourcesIn(spec.json());
  // The object may have been stored before its source got these defaults.
  Json defaulted = spec.old();
  DefaultSource(defaulted);
  const Json before = SourcesIn(defaulted);
  // The secret for expansion may be added later, because a volume may be created before its
  // expansion is planned.
  if (Find(before, {"csi", "controllerExpandSecretRef"}) == nullptr) {
    base::json::Remove(source, {"csi", "controllerExpandSecretRef"});
  }
  if (source != before) {
    spec["persistentvolumesource"].Forbidden(
        "spec.persistentvolumesource is immutable after creation");
  }
  spec["volumeMode"].Named("volumeMode").Immutable();
  if (!spec["nodeAffinity"].old().is_null()) {
    spec["nodeAffinity"].Named("nodeAffinity").Immutable();
  }
  const Checked attributes = spec["volumeAttributesClassName"];
  if (!attributes.old().is_null() && !attributes.present()) {
    attributes.Forbidden("update from non-nil value to nil is forbidden");
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
  claim.validate_update = ValidateClaimUpdate;
  claim.validate_status = ValidateClaimStatus;
  rules.push_back(claim);

  KindRules volume(api::kinds::kPersistentVolume);
  volume.delete_returns_object = true;
  volume.status_keeps_metadata = true;
  volume.initial_status = {{"phase", "Pending"}};
  volume.defaults = DefaultPersistentVolume;
  volume.admit_create = AdmitVolume;
  volume.admit_status = AdmitVolumeStatus;
  volume.validate = ValidateVolume;
  volume.validate_update = ValidateVolumeUpdate;
  rules.push_back(volume);
}

}  // namespace berth::apiserver
