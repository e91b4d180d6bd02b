// StorageClass, VolumeAttributesClass, VolumeAttachment, CSINode, CSIDriver, CSIStorageCapacity.

#include "api/names.h"
#include "apiserver/kinds/kind_rules.h"
#include "apiserver/kinds/spec_checks.h"
#include "apiserver/kinds/volume_specs.h"

namespace berth::apiserver {

using base::json::Find;
using base::json::Int;

namespace {

constexpr size_t kMaxAttachmentMetadata = 256 * 1024;
constexpr size_t kMaxVolumeError = 1024;
constexpr size_t kMaxNodeId = 192;
constexpr int64_t kShortestAllocatableUpdate = 10;  // seconds

// ---- StorageClass

void DefaultClass(Json& object) {
  SetDefault(object, {"reclaimPolicy"}, "Delete");
  SetDefault(object, {"volumeBindingMode"}, "Immediate");
}

void CheckTopologies(const Checked& topologies) {
  std::set<std::string> terms;
  for (const Checked& term : topologies.Items()) {
    const Checked expressions = term["matchLabelExpressions"];
    std::set<std::string> keys;
    for (const Checked& one : expressions.Items()) {
      one["values"].Needed();
      std::set<std::string> values;
      for (const Checked& value : one["values"].Items()) {
        value.Is(api::CheckLabelValue);
        value.Unique(values);
      }
      one["key"].Is(api::CheckQualifiedName);
      one["key"].Unique(keys);
    }
    if (!terms.insert(base::json::Dump(expressions.json())).second) expressions.Duplicate();
  }
}

void ValidateClass(const Json& json, FieldErrors& errors) {
  const Checked object(json, errors);
  if (object["provisioner"].Needed()) object["provisioner"].Is(CheckAnyCaseQualifiedName);
  CheckParameters(object["parameters"]);
  object["reclaimPolicy"].OneOfIfGiven({"Delete", "Retain"});
  object["volumeBindingMode"].OneOf({"Immediate", "WaitForFirstConsumer"});
  CheckTopologies(object["allowedTopologies"]);
}

void ValidateClassUpdate(const Json& json, const Json& old, FieldErrors& errors) {
  const Checked object(json, old, errors);
  for (const std::string_view field : {"parameters", "provisioner", "reclaimPolicy"}) {
    object[field].Unchanged(fmt::format("updates to {} are forbidden.", field));
  }
  object["volumeBindingMode"].Immutable();
}

// ---- VolumeAttributesClass

void ValidateAttributesClass(const Json& json, FieldErrors& errors) {
  const Checked object(json, errors);
  CheckCsiDriverName(object["driverName"]);
  if (object["parameters"].Needed("must contain at least one key/value pair")) {
    CheckParameters(object["parameters"]);
  }
}

void ValidateAttributesClassUpdate(const Json& json, const Json& old, FieldErrors& errors) {
  const Checked object(json, old, errors);
  for (const std::string_view field : {"driverName", "parameters"}) {
    object[field].Unchanged(fmt::format("updates to {} are forbidden.", field));
  }
}

// ---- VolumeAttachment

void CheckVolumeError(const Checked& error) {
  if (error["message"].text().size() > kMaxVolumeError) error["message"].TooLong(kMaxVolumeError);
}

void ValidateAttachmentStatus(const Json& json, const Json& old, FieldErrors& errors) {
  const Checked status = Checked(json, old, errors)["status"];
  size_t bytes = 0;
  for (const auto& [key, value] : status["attachmentMetadata"].Entries()) {
    bytes += key.size() + value.text().size();
  }
  if (bytes > kMaxAttachmentMetadata) status["attachmentMetadata"].TooLong(kMaxAttachmentMetadata);
  CheckVolumeError(status["attachError"]);
  CheckVolumeError(status["detachError"]);
}

void ValidateAttachment(const Json& json, FieldErrors& errors) {
  constexpr std::string_view kOne =
      "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
  const Checked spec = Checked(json, errors)["spec"];
  CheckCsiDriverName(spec["attacher"]);
  const Checked source = spec["source"];
  const Checked name = source["persistentVolumeName"];
  const Checked inlined = source["inlineVolumeSpec"];
  if (!name.present() && !inlined.present()) {
    source.Required(kOne);
  } else if (name.present() && inlined.present()) {
    source.Forbidden(kOne);
  } else if (inlined.present()) {
    ValidateInlineVolumeSpec(inlined);
  } else if (name.Needed("must specify non empty persistentVolumeName")) {
    name.Is(api::CheckDns1123Subdomain);
  }
  spec["nodeName"].Is(api::CheckDns1123Subdomain);
}

void ValidateAttachmentUpdate(const Json& json, const Json& old, FieldErrors& errors) {
  Checked(json, old, errors)["spec"].Immutable();
}

// ---- CSINode

void ValidateCsiNode(const Json& json, FieldErrors& errors) {
  std::set<std::string> names;
  for (const Checked& driver : Checked(json, errors)["spec"]["drivers"].Items()) {
    CheckCsiDriverName(driver["name"]);
    driver["name"].Unique(names);
    if (driver["nodeID"].Needed() && driver["nodeID"].text().size() > kMaxNodeId) {
      driver["nodeID"].Invalid(fmt::format("must be {} characters or less", kMaxNodeId));
    }
    driver["allocatable"]["count"].AtLeast(0);
    std::set<std::string> keys;
    for (const Checked& item : driver["topologyKeys"].Items()) {
      const Checked key = item.Named(driver.field());
      key.Unique(keys);
      key.Is(api::CheckQualifiedName);
    }
  }
}

const Json* FindDriver(const Json& node, const std::string& name) {
  for (const Json& driver : base::json::Array(node, {"spec", "drivers"})) {
    if (base::json::String(driver, {"name"}) == name) return &driver;
  }
  return nullptr;
}

Json WithoutCount(Json driver) {
  base::json::Remove(driver, {"allocatable", "count"});
  if (base::json::Map(driver, {"allocatable"}).empty()) driver.erase("allocatable");
  return driver;
}

// Only the limit (allocatable.count) in a driver's entry may change, because volumes were attached
// with the rest of the entry.
void ValidateCsiNodeUpdate(const Json& json, const Json& old, FieldErrors& errors) {
  for (const Json& driver : base::json::Array(json, {"spec", "drivers"})) {
    const Json* before = FindDriver(old, base::json::String(driver, {"name"}));
    if (before != nullptr && WithoutCount(driver) != WithoutCount(*before)) {
      errors.Invalid("spec.drivers", driver, "field is immutable");
    }
  }
}

// ---- CSIDriver

void DefaultDriver(Json& object) {
  SetDefault(object, {"spec", "attachRequired"}, true);
  for (const std::string_view off :
       {"podInfoOnMount", "storageCapacity", "requiresRepublish", "seLinuxMount"}) {
    SetDefault(object, {"spec", off}, false);
  }
  SetDefault(object, {"spec", "fsGroupPolicy"}, "ReadWriteOnceWithFSType");
  SetDefault(object, {"spec", "volumeLifecycleModes"}, Json::array({"Persistent"}));
}

void ValidateDriver(const Json& json, FieldErrors& errors) {
  const Checked object(json, errors);
  CheckCsiDriverName(object["metadata"]["name"].Named("name"));
  const Checked spec = object["spec"];
  spec["fsGroupPolicy"].OneOf({"File", "None", "ReadWriteOnceWithFSType"});
  for (const Checked& mode : spec["volumeLifecycleModes"].Items()) {
    mode.Named(spec["volumeLifecycleModes"].field()).OneOf({"Ephemeral", "Persistent"});
  }
  std::set<std::string> audiences;
  for (const Checked& request : spec["tokenRequests"].Items()) {
    request["audience"].Unique(audiences);
    CheckTokenLifetime(request["expirationSeconds"]);
  }
  const Checked update = spec["nodeAllocatableUpdatePeriodSeconds"];
  if (update.number(kShortestAllocatableUpdate) < kShortestAllocatableUpdate) {
    update.Invalid(
        fmt::format("must be greater than or equal to {} seconds", kShortestAllocatableUpdate));
  }
}

void ValidateDriverUpdate(const Json& json, const Json& old, FieldErrors& errors) {
  const Checked spec = Checked(json, old, errors)["spec"];
  spec["attachRequired"].Named("spec.attachedRequired").Immutable();
  spec["volumeLifecycleModes"].Immutable();
}

// Increases metadata.generation if a field changed that the node agent uses.
base::Status CountDriverGeneration(Json& object, const Json& old, Lookup&) {
  for (const char* field : {"tokenRequests", "requiresRepublish"}) {
    const Json* now = Find(object, {"spec", field});
    const Json* before = Find(old, {"spec", field});
    if (now == nullptr || before == nullptr ? now == before : *now == *before) continue;
    base::json::Set(object, {"metadata", "generation"}, Int(old, {"metadata", "generation"}) + 1);
    break;
  }
  return base::OkStatus();
}

// ---- CSIStorageCapacity

void ValidateCapacity(const Json& json, FieldErrors& errors) {
  const Checked object(json, errors);
  CheckLabelSelector(object["nodeTopology"]);
  object["storageClassName"].Is(api::CheckDns1123Subdomain);
  object["capacity"].NonNegativeQuantity();
  object["maximumVolumeSize"].NonNegativeQuantity();
}

void ValidateCapacityUpdate(const Json& json, const Json& old, FieldErrors& errors) {
  const Checked object(json, old, errors);
  object["nodeTopology"].Immutable();
  object["storageClassName"].Immutable();
}

}  // namespace

void AddStorageRules(std::vector<KindRules>& rules) {
  KindRules storage_class(api::kinds::kStorageClass);
  storage_class.delete_returns_object = true;
  storage_class.defaults = DefaultClass;
  storage_class.validate = ValidateClass;
  storage_class.validate_update = ValidateClassUpdate;
  rules.push_back(storage_class);

  KindRules attributes(api::kinds::kVolumeAttributesClass);
  attributes.delete_returns_object = true;
  attributes.validate = ValidateAttributesClass;
  attributes.validate_update = ValidateAttributesClassUpdate;
  rules.push_back(attributes);

  KindRules attachment(api::kinds::kVolumeAttachment);
  attachment.delete_returns_object = true;
  attachment.update_needs_version = true;
  attachment.initial_status = {{"attached", false}};
  attachment.validate = ValidateAttachment;
  attachment.validate_update = ValidateAttachmentUpdate;
  attachment.validate_status = ValidateAttachmentStatus;
  rules.push_back(attachment);

  KindRules node(api::kinds::kCsiNode);
  node.delete_returns_object = true;
  node.update_needs_version = true;
  node.validate = ValidateCsiNode;
  node.validate_update = ValidateCsiNodeUpdate;
  rules.push_back(node);

  KindRules driver(api::kinds::kCsiDriver);
  driver.delete_returns_object = true;
  driver.update_needs_version = true;
  driver.defaults = DefaultDriver;
  driver.admit_update = CountDriverGeneration;
  driver.validate = ValidateDriver;
  driver.validate_update = ValidateDriverUpdate;
  rules.push_back(driver);

  KindRules capacity(api::kinds::kCsiStorageCapacity);
  capacity.update_needs_version = true;
  capacity.validate = ValidateCapacity;
  capacity.validate_update = ValidateCapacityUpdate;
  rules.push_back(capacity);
}

}  // namespace berth::apiserver
