// Namespace, Secret, ConfigMap, ServiceAccount, Endpoints, APIService.

#include <arpa/inet.h>

#include <cstring>

#include "api/names.h"
#include "apiserver/kinds/kind_rules.h"
#include "apiserver/kinds/spec_checks.h"
#include "base/base64.h"

namespace berth::apiserver {

using base::json::Array;
using base::json::Bool;
using base::json::Map;
using base::json::String;

namespace {

constexpr size_t kMaxConfigBytes = 1024 * 1024;

// ---- Namespace

// Forbids deleting the namespaces that the API itself needs.
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

// Adds the finalizer that the namespace controller removes after it has emptied the namespace.
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

void MarkNamespaceTerminating(Json& object) {
  base::json::Set(object, {"status", "phase"}, "Terminating");
  base::json::Remove(object, {"metadata", "deletionGracePeriodSeconds"});
}

void ValidateNamespace(const Json& json, FieldErrors& errors) {
  for (const Checked& finalizer : Checked(json, errors)["spec"]["finalizers"].Items()) {
    finalizer.Is(api::CheckQualifiedName);
    finalizer.Is(CheckFinalizerName);
  }
}

void ValidateNamespaceStatus(const Json& json, const Json& old, FieldErrors& errors) {
  const Checked object(json, old, errors);
  const Checked phase = object["status"]["phase"].Named("status.Phase");
  const bool ending = object["metadata"]["deletionTimestamp"].present();
  if (!ending && phase.text() != "Active") {
    phase.Invalid(phase.text(), "may only be 'Active' if `deletionTimestamp` is empty");
  } else if (ending && phase.text() != "Terminating") {
    phase.Invalid(phase.text(), "may only be 'Terminating' if `deletionTimestamp` is not empty");
  }
}

// ---- Secret and ConfigMap

// Moves stringData into data, because stringData is for writing only.
void DefaultSecret(Json& object) {
  SetDefault(object, {"type"}, "Opaque");
  const Json text = Map(object, {"stringData"});
  object.erase("stringData");
  for (const auto& [key, value] : text.items()) {
    if (value.is_string()) {
      base::json::Set(object, {"data", key},
                      base::EncodeBase64(value.get_ref<const std::string&>()));
    }
  }
}

// Checks the keys and, for `binary` data, that the values are base64. Returns the bytes of all
// values. Messages do not show values, because values may be secret.
size_t CheckData(const Checked& data, bool binary) {
  size_t total = 0;
  for (const auto& [key, value] : data.Entries()) {
    if (const base::Status valid = api::CheckConfigKey(key); !valid.ok()) {
      value.Invalid(key, base::Message(valid));
    }
    if (!binary) {
      total += value.text().size();
      continue;
    }
    const auto decoded = base::DecodeBase64(value.text());
    if (!decoded || !value.json().is_string()) {
      value.Invalid("<redacted>", "must be base64-encoded");
    } else {
      total += decoded->size();
    }
  }
  return total;
}

// Checks that `key` is present and that its value is a JSON document.
void CheckJsonEntry(const Checked& data, std::string_view key) {
  const Checked entry = data.Key(key);
  if (!entry.present()) return entry.Required();
  const auto decoded = base::DecodeBase64(entry.text());
  if (decoded && !base::json::Parse(*decoded).ok()) {
    entry.Invalid("<secret contents redacted>", "invalid JSON");
  }
}

// Checks the keys that the well-known secret types require.
void CheckSecretType(const Checked& secret) {
  const std::string type = secret["type"].text();
  const Checked data = secret["data"];
  const auto needs = [&](std::string_view key) {
    if (!data.Key(key).present()) data.Key(key).Required();
  };
  if (type == "kubernetes.io/service-account-token") {
    constexpr std::string_view kAccount = "kubernetes.io/service-account.name";
    secret["metadata"]["annotations"].Key(kAccount).Needed();
  } else if (type == "kubernetes.io/dockercfg") {
    CheckJsonEntry(data, ".dockercfg");
  } else if (type == "kubernetes.io/dockerconfigjson") {
    CheckJsonEntry(data, ".dockerconfigjson");
  } else if (type == "kubernetes.io/basic-auth") {
    if (!data.Key("username").present() && !data.Key("password").present()) {
      needs("username");
      needs("password");
    }
  } else if (type == "kubernetes.io/ssh-auth") {
    if (!data.Key("ssh-privatekey").given()) data.Key("ssh-privatekey").Required();
  } else if (type == "kubernetes.io/tls") {
    needs("tls.crt");
    needs("tls.key");
  }
}

void ValidateSecret(const Json& json, FieldErrors& errors) {
  const Checked secret(json, errors);
  if (CheckData(secret["data"], /*binary=*/true) > kMaxConfigBytes) {
    secret["data"].TooLong(kMaxConfigBytes);
  }
  CheckSecretType(secret);
}

void ValidateConfigMap(const Json& json, FieldErrors& errors) {
  const Checked config(json, errors);
  const Checked binary = config["binaryData"];
  for (const auto& [key, value] : config["data"].Entries()) {
    if (binary[key].present()) value.Invalid(key, "duplicate of key present in binaryData");
  }
  const size_t total = CheckData(config["data"], false) + CheckData(binary, true);
  if (total > kMaxConfigBytes) config.TooLong(kMaxConfigBytes);
}

void CheckImmutableData(const Json& json, const Json& old, FieldErrors& errors) {
  constexpr std::string_view kSealed = "field is immutable when `immutable` is set";
  if (!Bool(old, {"immutable"})) return;
  const Checked object(json, old, errors);
  if (!object["immutable"].flag()) object["immutable"].Forbidden(kSealed);
  object["data"].Unchanged(kSealed);
  object["binaryData"].Unchanged(kSealed);
}

void ValidateSecretUpdate(const Json& json, const Json& old, FieldErrors& errors) {
  Checked(json, old, errors)["type"].Immutable();
  CheckImmutableData(json, old, errors);
}

// ---- Endpoints

void DefaultEndpoints(Json& object) {
  Json* subsets = FindMutable(object, {"subsets"});
  if (subsets == nullptr || !subsets->is_array()) return;
  for (Json& subset : *subsets) {
    Json* ports = FindMutable(subset, {"ports"});
    if (ports == nullptr || !ports->is_array()) continue;
    for (Json& port : *ports) SetDefault(port, {"protocol"}, "TCP");
  }
}

// Parses an IPv4 or IPv6 address; an IPv4 address becomes an IPv4-mapped IPv6 address.
bool ParseAddress(const std::string& text, in6_addr& address) {
  if (inet_pton(AF_INET6, text.c_str(), &address) == 1) return true;
  return inet_pton(AF_INET6, ("::ffff:" + text).c_str(), &address) == 1;
}

// Why endpoints cannot have this address: it is in a special range and reaches no other machine.
// Empty for other addresses.
std::string_view SpecialRangeReason(const in6_addr& address) {
  if (IN6_IS_ADDR_V4MAPPED(&address)) {
    uint32_t word = 0;
    std::memcpy(&word, address.s6_addr + 12, sizeof(word));
    word = ntohl(word);
    if (word == INADDR_ANY) return "may not be unspecified";
    if (word >> 24 == 127) return "may not be in the loopback range (127.0.0.0/8, ::1/128)";
    if (word >> 16 == 0xa9fe)
      return "may not be in the link-local range (169.254.0.0/16, fe80::/10)";
    if (word >> 8 == 0xe00000) {
      return "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)";
    }
    return "";
  }
  if (IN6_IS_ADDR_UNSPECIFIED(&address)) return "may not be unspecified";
  if (IN6_IS_ADDR_LOOPBACK(&address))
    return "may not be in the loopback range (127.0.0.0/8, ::1/128)";
  if (IN6_IS_ADDR_LINKLOCAL(&address)) {
    return "may not be in the link-local range (169.254.0.0/16, fe80::/10)";
  }
  if (IN6_IS_ADDR_MC_LINKLOCAL(&address)) {
    return "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)";
  }
  return "";
}

void CheckEndpointAddress(const Checked& address) {
  const Checked ip = address["ip"];
  in6_addr parsed = {};
  if (!ParseAddress(ip.text(), parsed)) {
    ip.Invalid("must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)");
  } else if (const std::string_view special = SpecialRangeReason(parsed); !special.empty()) {
    ip.Invalid(special);
  }
  address["hostname"].IsIfGiven(api::CheckDns1123Label);
  address["nodeName"].IsIfGiven(api::CheckDns1123Subdomain);
}

void ValidateEndpoints(const Json& json, FieldErrors& errors) {
  constexpr int kMaxPort = 65535;
  for (const Checked& subset : Checked(json, errors)["subsets"].Items()) {
    if (!subset["addresses"].given() && !subset["notReadyAddresses"].given()) {
      subset.Required("must specify `addresses` or `notReadyAddresses`");
    }
    for (const std::string_view list : {"addresses", "notReadyAddresses"}) {
      for (const Checked& address : subset[list].Items()) CheckEndpointAddress(address);
    }
    const std::vector<Checked> ports = subset["ports"].Items();
    for (const Checked& port : ports) {
      if (ports.size() > 1) port["name"].Needed();
      port["name"].IsIfGiven(api::CheckDns1123Label);
      port["port"].Between(1, kMaxPort);
      port["protocol"].OneOf({"SCTP", "TCP", "UDP"});
      port["appProtocol"].IsIfGiven(api::CheckQualifiedName);
    }
  }
}

}  // namespace

void AddCoreRules(std::vector<KindRules>& rules) {
  KindRules ns(api::kinds::kNamespace);
  ns.check_name = api::CheckDns1123Label;
  ns.delete_returns_object = true;
  ns.status_keeps_metadata = true;
  ns.has_spec_finalizers = true;
  ns.initial_status = {{"phase", "Active"}};
  ns.defaults = DefaultNamespace;
  ns.admit_create = AdmitNamespace;
  ns.admit_update = KeepNamespaceFinalizers;
  ns.on_delete = MarkNamespaceTerminating;
  ns.forbid_delete = ForbidNamespaceDelete;
  ns.validate = ValidateNamespace;
  ns.validate_status = ValidateNamespaceStatus;
  rules.push_back(ns);

  KindRules secret(api::kinds::kSecret);
  secret.defaults = DefaultSecret;
  secret.validate = ValidateSecret;
  secret.validate_update = ValidateSecretUpdate;
  rules.push_back(secret);

  KindRules config(api::kinds::kConfigMap);
  config.validate = ValidateConfigMap;
  config.validate_update = CheckImmutableData;
  rules.push_back(config);

  KindRules account(api::kinds::kServiceAccount);
  account.delete_returns_object = true;
  rules.push_back(account);

  KindRules endpoints(api::kinds::kEndpoints);
  endpoints.create_on_update = true;
  endpoints.defaults = DefaultEndpoints;
  endpoints.validate = ValidateEndpoints;
  rules.push_back(endpoints);

  KindRules service(api::kinds::kApiService);  // the server maintains these: api_services.h
  service.check_name = api::CheckPathSegment;  // "v1.", of the core group
  rules.push_back(service);
}

}  // namespace berth::apiserver
