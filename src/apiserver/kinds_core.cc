// Namespace, Node, Secret, ConfigMap, ServiceAccount, Event, Lease.

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

void DefaultNamespace(Json& object) {
  Default(object, {"spec", "finalizers"}, Json::array({"kubernetes"}));
  // Selectors find a namespace by its name with this label, as in Kubernetes.
  base::json::Set(object, {"metadata", "labels", "kubernetes.io/metadata.name"},
                  String(object, {"metadata", "name"}));
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

void ValidateEvent(const Json& object, FieldErrors& errors) {
  const std::string ns = String(object, {"metadata", "namespace"});
  const std::string involved = String(object, {"involvedObject", "namespace"});
  // Events about objects without namespace live in "default" (or in kube-system).
  const bool fits = involved.empty() ? ns == "default" || ns == "kube-system" : involved == ns;
  if (!fits) {
    errors.Invalid("involvedObject.namespace", involved, "does not match event.namespace");
  }
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
  ns.defaults = DefaultNamespace;
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

  KindRules event(api::kinds::kEvent);
  event.create_on_update = true;
  event.validate = ValidateEvent;
  rules.push_back(event);

  KindRules lease(api::kinds::kLease);
  lease.create_on_update = true;
  lease.update_needs_version = true;
  lease.validate = ValidateLease;
  rules.push_back(lease);
}

}  // namespace berth::apiserver
