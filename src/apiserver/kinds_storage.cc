// StorageClass, VolumeAttachment, CSINode, CSIDriver, CSIStorageCapacity, HostMount.

#include <set>

#include "api/names.h"
#include "api/quantity.h"
#include "apiserver/kind_rules.h"

namespace berth::apiserver {

using base::json::Array;
using base::json::Find;
using base::json::Map;
using base::json::String;

namespace {

// ---- StorageClass

void DefaultClass(Json& object) {
  Default(object, {"reclaimPolicy"}, "Delete");
  Default(object, {"volumeBindingMode"}, "Immediate");
}

void ValidateClass(const Json& object, FieldErrors& errors) {
  CheckPresent(object, {"provisioner"}, "provisioner", errors);
  CheckOneOf(object, {"reclaimPolicy"}, "reclaimPolicy", {"Delete", "Retain"}, errors);
  CheckOneOf(object, {"volumeBindingMode"}, "volumeBindingMode",
             {"Immediate", "WaitForFirstConsumer"}, errors);
  for (const auto& [key, value] : Map(object, {"parameters"}).items()) {
    if (key.empty()) errors.Invalid("parameters", key, "field must not be empty.");
  }
}

void UpdateClass(const Json& object, const Json& old, FieldErrors& errors) {
  for (const std::string_view field : {"parameters", "provisioner", "reclaimPolicy"}) {
    ForbidChange(object, old, {field}, field, fmt::format("updates to {} are forbidden.", field),
                 errors);
  }
  errors.Immutable("volumeBindingMode", Find(object, {"volumeBindingMode"}),
                   Find(old, {"volumeBindingMode"}));
}

// ---- VolumeAttachment

void ValidateAttachment(const Json& object, FieldErrors& errors) {
  CheckPresent(object, {"spec", "attacher"}, "spec.attacher", errors);
  CheckPresent(object, {"spec", "nodeName"}, "spec.nodeName", errors);
  const bool named = !String(object, {"spec", "source", "persistentVolumeName"}).empty();
  const bool inlined = Find(object, {"spec", "source", "inlineVolumeSpec"}) != nullptr;
  if (!named && !inlined) {
    errors.Required("spec.source",
                    "must specify exactly one of inlineVolumeSpec and persistentVolumeName");
  } else if (named && inlined) {
    errors.Forbidden("spec.source",
                     "must specify exactly one of inlineVolumeSpec and persistentVolumeName");
  }
}

void UpdateAttachment(const Json& object, const Json& old, FieldErrors& errors) {
  errors.Immutable("spec", Find(object, {"spec"}), Find(old, {"spec"}));
}

// ---- CSINode

void ValidateCsiNode(const Json& object, FieldErrors& errors) {
  std::set<std::string> names;
  size_t i = 0;
  for (const Json& driver : Array(object, {"spec", "drivers"})) {
    const std::string field = fmt::format("spec.drivers[{}]", i++);
    const std::string name = String(driver, {"name"});
    CheckPresent(driver, {"name"}, field + ".name", errors);
    CheckPresent(driver, {"nodeID"}, field + ".nodeID", errors);
    if (!names.insert(name).second) errors.Duplicate(field + ".name", name);
    std::set<std::string> keys;
    for (const Json& key : Array(driver, {"topologyKeys"})) {
      if (!key.is_string()) continue;
      const std::string text = key.get<std::string>();
      errors.Check(field + ".topologyKeys", key, api::CheckQualifiedName(text));
      if (!keys.insert(text).second) errors.Duplicate(field + ".topologyKeys", key);
    }
    const Json* count = Find(driver, {"allocatable", "count"});
    if (count != nullptr && (!count->is_number_integer() || count->get<int64_t>() < 0)) {
      errors.Invalid(field + ".allocatable.count", *count, "must be greater than or equal to 0");
    }
  }
}

// A driver's entry is what volumes were attached by: only its limit may change while it stays.
void UpdateCsiNode(const Json& object, const Json& old, FieldErrors& errors) {
  for (Json before : Array(old, {"spec", "drivers"})) {
    for (Json driver : Array(object, {"spec", "drivers"})) {
      if (String(driver, {"name"}) != String(before, {"name"})) continue;
      base::json::Remove(driver, {"allocatable", "count"});
      base::json::Remove(before, {"allocatable", "count"});
      if (Map(driver, {"allocatable"}).empty()) driver.erase("allocatable");
      if (Map(before, {"allocatable"}).empty()) before.erase("allocatable");
      errors.Immutable("spec.drivers", &driver, &before);
    }
  }
}

// ---- CSIDriver

void DefaultDriver(Json& object) {
  Default(object, {"spec", "attachRequired"}, true);
  for (const std::string_view off :
       {"podInfoOnMount", "storageCapacity", "requiresRepublish", "seLinuxMount"}) {
    Default(object, {"spec", off}, false);
  }
  Default(object, {"spec", "fsGroupPolicy"}, "ReadWriteOnceWithFSType");
  Default(object, {"spec", "volumeLifecycleModes"}, Json::array({"Persistent"}));
}

void ValidateDriver(const Json& object, FieldErrors& errors) {
  CheckOneOf(object, {"spec", "fsGroupPolicy"}, "spec.fsGroupPolicy",
             {"File", "None", "ReadWriteOnceWithFSType"}, errors);
  for (const Json& mode : Array(object, {"spec", "volumeLifecycleModes"})) {
    if (mode != "Persistent" && mode != "Ephemeral") {
      errors.NotSupported("spec.volumeLifecycleModes", mode, {"Ephemeral", "Persistent"});
    }
  }
}

void UpdateDriver(const Json& object, const Json& old, FieldErrors& errors) {
  errors.Immutable("spec.attachRequired", Find(object, {"spec", "attachRequired"}),
                   Find(old, {"spec", "attachRequired"}));
  errors.Immutable("spec.volumeLifecycleModes", Find(object, {"spec", "volumeLifecycleModes"}),
                   Find(old, {"spec", "volumeLifecycleModes"}));
}

// ---- CSIStorageCapacity

void ValidateCapacity(const Json& object, FieldErrors& errors) {
  CheckPresent(object, {"storageClassName"}, "storageClassName", errors);
  for (const std::string_view field : {"capacity", "maximumVolumeSize"}) {
    const Json* value = Find(object, {field});
    if (value == nullptr) continue;
    const std::string text =
        value->is_string() ? value->get<std::string>() : base::json::Dump(*value);
    errors.Check(field, *value, api::ParseBytes(text).status());
  }
}

void UpdateCapacity(const Json& object, const Json& old, FieldErrors& errors) {
  for (const std::string_view field : {"nodeTopology", "storageClassName"}) {
    errors.Immutable(field, Find(object, {field}), Find(old, {field}));
  }
}

// ---- HostMount

// Absolute, and without parts that a mount by descriptor would not understand.
bool IsCleanPath(std::string_view path) {
  if (path.size() < 2 || !path.starts_with('/') || path.ends_with('/')) return false;
  path.remove_prefix(1);
  while (true) {
    const size_t slash = path.find('/');
    const std::string_view part = path.substr(0, slash);
    if (part.empty() || part == "." || part == "..") return false;
    if (slash == std::string_view::npos) return true;
    path.remove_prefix(slash + 1);
  }
}

void ValidateHostMount(const Json& object, FieldErrors& errors) {
  CheckPresent(object, {"spec", "nodeName"}, "spec.nodeName", errors);
  CheckPresent(object, {"spec", "claimName"}, "spec.claimName", errors);
  const std::string path = String(object, {"spec", "path"});
  if (path.empty()) {
    errors.Required("spec.path");
  } else if (!IsCleanPath(path)) {
    errors.Invalid(
        "spec.path", path,
        "must be an absolute path below '/', without '.', '..', '//' and a trailing '/'");
  }
}

void UpdateHostMount(const Json& object, const Json& old, FieldErrors& errors) {
  errors.Immutable("spec", Find(object, {"spec"}), Find(old, {"spec"}));
}

}  // namespace

void AddStorageRules(std::vector<KindRules>& rules) {
  KindRules storage_class(api::kinds::kStorageClass);
  storage_class.delete_returns_object = true;
  storage_class.defaults = DefaultClass;
  storage_class.validate = ValidateClass;
  storage_class.validate_update = UpdateClass;
  rules.push_back(storage_class);

  KindRules attachment(api::kinds::kVolumeAttachment);
  attachment.delete_returns_object = true;
  attachment.update_needs_version = true;
  attachment.initial_status = {{"attached", false}};
  attachment.validate = ValidateAttachment;
  attachment.validate_update = UpdateAttachment;
  rules.push_back(attachment);

  KindRules node(api::kinds::kCsiNode);
  node.delete_returns_object = true;
  node.update_needs_version = true;
  node.validate = ValidateCsiNode;
  node.validate_update = UpdateCsiNode;
  rules.push_back(node);

  KindRules driver(api::kinds::kCsiDriver);
  driver.delete_returns_object = true;
  driver.update_needs_version = true;
  driver.defaults = DefaultDriver;
  driver.validate = ValidateDriver;
  driver.validate_update = UpdateDriver;
  rules.push_back(driver);

  KindRules capacity(api::kinds::kCsiStorageCapacity);
  capacity.update_needs_version = true;
  capacity.validate = ValidateCapacity;
  capacity.validate_update = UpdateCapacity;
  rules.push_back(capacity);

  KindRules mount(api::kinds::kHostMount);
  mount.counts_generation = true;
  mount.update_needs_version = true;
  mount.delete_returns_object = true;
  mount.initial_status = {{"phase", "Pending"}};
  mount.validate = ValidateHostMount;
  mount.validate_update = UpdateHostMount;
  rules.push_back(mount);
}

}  // namespace berth::apiserver
