// Namespace, Node, Secret, ConfigMap, ServiceAccount, Lease.

#include "api/names.h"
#include "apiserver/kind_rules.h"
#include "base/base64.h"

namespace berth::apiserver {

using base::json::Array;
using base::json::Bool;
using base::json::Find;
using base::json::Int;
using base::json::Map;
using base::json::String;

namespace {

constexpr size_t kMaxConfigBytes = 1024 * 1024;

// The namespaces that the API itself lives by.
base::Status ForbidNamespaceDelete(std::string_view name) {
  for (const std::string_view kept : {"default", "kube-system", "kube-public", "kube-node-lease"}) {
    if (name == kept) {
      return ForbiddenError(api::kinds::kNamespace, name, "this namespace may not be deleted");
    }
  }
  return base::OkStatus();
}

void DefaultNamespace(Json& object) {
  // Selectors find a namespace by its name with this label, as in Kubernetes.
  base::json::Set(object, {"metadata", "labels", "kubernetes.io/metadata.name"},
                  String(object, {"metadata", "name"}));
}

// Whoever empties a namespace that is to end takes this off.
base::Status AdmitNamespace(Json& object, Lookup&) {
  constexpr std::string_view kFinalizer = "kubernetes";
  Json finalizers = Array(object, {"spec", "finalizers"});
  if (std::find(finalizers.begin(), finalizers.end(), kFinalizer) == finalizers.end()) {
    finalizers.push_back(std::string(kFinalizer));
  }
  base::json::Set(object, {"spec", "finalizers"}, std::move(finalizers));
  return base::OkStatus();
}

base::Status KeepNamespaceFinalizers(Json& object, const Json& old, Lookup&) {
  base::json::Set(object, {"spec", "finalizers"}, Array(old, {"spec", "finalizers"}));
  return base::OkStatus();
}

void EndNamespace(Json& object) {
  base::json::Set(object, {"status", "phase"}, "Terminating");
  base::json::Remove(object, {"metadata", "deletionGracePeriodSeconds"});
}

void ValidateNamespace(const Json& object, FieldErrors& errors) {
  size_t i = 0;
  for (const Json& finalizer : Array(object, {"spec", "finalizers"})) {
    const std::string field = fmt::format("spec.finalizers[{}]", i++);
    if (!finalizer.is_string()) continue;
    const std::string name = finalizer.get<std::string>();
    errors.Check(field, name, api::CheckQualifiedName(name));
    if (name.find('/') == std::string::npos && name != "kubernetes" && name != "orphan" &&
        name != "foregroundDeletion") {
      errors.Invalid(field, name,
                     "name is neither a standard finalizer name nor is it fully qualified");
    }
  }
}

void ValidateNamespaceStatus(const Json& object, const Json&, FieldErrors& errors) {
  const std::string phase = String(object, {"status", "phase"});
  const bool ending = Find(object, {"metadata", "deletionTimestamp"}) != nullptr;
  if (!ending && phase != "Active") {
    errors.Invalid("status.Phase", phase, "may only be 'Active' if `deletionTimestamp` is empty");
  } else if (ending && phase != "Terminating") {
    errors.Invalid("status.Phase", phase,
                   "may only be 'Terminating' if `deletionTimestamp` is not empty");
  }
}

void ValidateNode(const Json& object, FieldErrors& errors) {
  size_t i = 0;
  for (const Json& taint : Array(object, {"spec", "taints"})) {
    const std::string field = fmt::format("spec.taints[{}]", i++);
    const std::string key = String(taint, {"key"});
    errors.Check(field + ".key", key, api::CheckQualifiedName(key));
    const std::string value = String(taint, {"value"});
    errors.Check(field + ".value", value, api::CheckLabelValue(value));
    CheckOneOf(taint, {"effect"}, field + ".effect",
               {"NoSchedule", "PreferNoSchedule", "NoExecute"}, errors);
  }
}

// stringData is for writing only: it goes into data.
void DefaultSecret(Json& object) {
  Default(object, {"type"}, "Opaque");
  const Json text = Map(object, {"stringData"});
  object.erase("stringData");
  for (const auto& [key, value] : text.items()) {
    if (value.is_string()) {
      base::json::Set(object, {"data", key},
                      base::EncodeBase64(value.get_ref<const std::string&>()));
    }
  }
}

void CheckDataKeys(const Json& data, std::string_view field, FieldErrors& errors) {
  for (const auto& [key, value] : data.items()) {
    errors.Check(fmt::format("{}[{}]", field, key), key, api::CheckConfigKey(key));
  }
}

// Binary values: base64. Their total decoded size is added to `total`. The value itself may be a
// secret and stays out of the message.
void CheckBinary(const Json& data, std::string_view field, size_t& total, FieldErrors& errors) {
  for (const auto& [key, value] : data.items()) {
    const auto decoded = value.is_string() ? base::DecodeBase64(value.get_ref<const std::string&>())
                                           : std::optional<std::string>();
    if (!decoded) {
      errors.Invalid(fmt::format("{}[{}]", field, key), "<redacted>", "must be base64-encoded");
      continue;
    }
    total += decoded->size();
  }
}

void ValidateSecret(const Json& object, FieldErrors& errors) {
  const Json& data = Map(object, {"data"});
  size_t total = 0;
  CheckDataKeys(data, "data", errors);
  CheckBinary(data, "data", total, errors);
  if (total > kMaxConfigBytes) errors.TooLong("data", kMaxConfigBytes);
}

void ValidateConfigMap(const Json& object, FieldErrors& errors) {
  const Json& data = Map(object, {"data"});
  const Json& binary = Map(object, {"binaryData"});
  size_t total = 0;
  CheckDataKeys(data, "data", errors);
  CheckDataKeys(binary, "binaryData", errors);
  CheckBinary(binary, "binaryData", total, errors);
  for (const auto& [key, value] : data.items()) {
    if (binary.contains(key)) {
      errors.Invalid(fmt::format("data[{}]", key), key, "duplicate of key present in binaryData");
    }
    if (value.is_string()) total += value.get_ref<const std::string&>().size();
  }
  if (total > kMaxConfigBytes) errors.TooLong("", kMaxConfigBytes);
}

void KeepImmutableData(const Json& object, const Json& old, FieldErrors& errors) {
  if (!Bool(old, {"immutable"})) return;
  if (!Bool(object, {"immutable"})) {
    errors.Forbidden("immutable", "field is immutable when `immutable` is set");
  }
  for (const std::string_view field : {"data", "binaryData"}) {
    ForbidChange(object, old, {field}, field, "field is immutable when `immutable` is set", errors);
  }
}

void UpdateSecret(const Json& object, const Json& old, FieldErrors& errors) {
  errors.Immutable("type", Find(object, {"type"}), Find(old, {"type"}));
  KeepImmutableData(object, old, errors);
}

void ValidateLease(const Json& object, FieldErrors& errors) {
  const Json* duration = Find(object, {"spec", "leaseDurationSeconds"});
  if (duration != nullptr && Int(object, {"spec", "leaseDurationSeconds"}) <= 0) {
    errors.Invalid("spec.leaseDurationSeconds", *duration, "must be greater than 0");
  }
  const Json* transitions = Find(object, {"spec", "leaseTransitions"});
  if (transitions != nullptr && Int(object, {"spec", "leaseTransitions"}) < 0) {
    errors.Invalid("spec.leaseTransitions", *transitions, "must be greater than or equal to 0");
  }
}

}  // namespace

void AddCoreRules(std::vector<KindRules>& rules) {
  KindRules ns(api::kinds::kNamespace);
  ns.check_name = api::CheckDns1123Label;
  ns.delete_returns_object = true;
  ns.status_keeps_metadata = true;
  ns.initial_status = {{"phase", "Active"}};
  ns.has_spec_finalizers = true;
  ns.defaults = DefaultNamespace;
  ns.admit_create = AdmitNamespace;
  ns.admit_update = KeepNamespaceFinalizers;
  ns.on_delete = EndNamespace;
  ns.forbid_delete = ForbidNamespaceDelete;
  ns.validate = ValidateNamespace;
  ns.validate_status = ValidateNamespaceStatus;
  rules.push_back(ns);

  KindRules node(api::kinds::kNode);
  node.status_keeps_metadata = true;
  node.validate = ValidateNode;
  rules.push_back(node);

  KindRules secret(api::kinds::kSecret);
  secret.defaults = DefaultSecret;
  secret.validate = ValidateSecret;
  secret.validate_update = UpdateSecret;
  rules.push_back(secret);

  KindRules config(api::kinds::kConfigMap);
  config.validate = ValidateConfigMap;
  config.validate_update = KeepImmutableData;
  rules.push_back(config);

  KindRules account(api::kinds::kServiceAccount);
  account.delete_returns_object = true;
  rules.push_back(account);

  KindRules lease(api::kinds::kLease);
  lease.create_on_update = true;
  lease.update_needs_version = true;
  lease.validate = ValidateLease;
  rules.push_back(lease);
}

}  // namespace berth::apiserver
