#include "controllers/provisioner/class_parameters.h"

#include <algorithm>
#include <array>
#include <set>

#include "controllers/secret_template.h"

namespace berth::controllers::provisioner {

using api::Labels;
using api::SecretReference;
using base::Error;
using base::Status;
using base::StatusCode;
using base::StatusOr;

namespace {

constexpr std::string_view kPrefix = "csi.storage.k8s.io/";

struct SecretKeys {
  SecretUse use;
  std::string_view key;         // with "-secret-name" and "-secret-namespace" behind it
  std::string_view deprecated;  // with "Name" and "Namespace" behind it; "": never existed
};
constexpr std::array<SecretKeys, 7> kSecrets = {{
    {SecretUse::kProvisioner, "provisioner", "csiProvisionerSecret"},
    {SecretUse::kControllerPublish, "controller-publish", "csiControllerPublishSecret"},
    {SecretUse::kNodeStage, "node-stage", "csiNodeStageSecret"},
    {SecretUse::kNodePublish, "node-publish", "csiNodePublishSecret"},
    {SecretUse::kControllerExpand, "controller-expand", ""},
    {SecretUse::kNodeExpand, "node-expand", ""},
    {SecretUse::kControllerModify, "controller-modify", ""},
}};

// The value of `key`, which may be empty; nullptr if the key is absent.
const std::string* FindKey(const Labels& parameters, const std::string& key) {
  const auto it = parameters.find(key);
  return it == parameters.end() ? nullptr : &it->second;
}

StatusOr<SecretReference> ReadPair(const Labels& parameters, const std::string& name_key,
                                   const std::string& namespace_key) {
  const std::string* name = FindKey(parameters, name_key);
  const std::string* ns = FindKey(parameters, namespace_key);
  if (name == nullptr && ns == nullptr) return SecretReference{};
  if (name == nullptr || ns == nullptr) {
    return Error(StatusCode::kInvalidArgument, "class parameter '{}' needs '{}' beside it",
                 name == nullptr ? namespace_key : name_key,
                 name == nullptr ? name_key : namespace_key);
  }
  if (name->empty() || ns->empty()) {
    return Error(StatusCode::kInvalidArgument, "class parameter '{}' is empty",
                 name->empty() ? name_key : namespace_key);
  }
  return SecretReference{.name = *name, .ns = *ns};
}

}  // namespace

StatusOr<ClassParameters> ClassParameters::Parse(const Labels& parameters) {
  ClassParameters out;
  const std::string prefix(kPrefix);
  std::set<std::string> known = {prefix + "fstype", prefix + "secret-name",
                                 prefix + "secret-namespace"};
  ASSIGN_OR_RETURN(const SecretReference fallback,
                   ReadPair(parameters, prefix + "secret-name", prefix + "secret-namespace"));
  for (const SecretKeys& keys : kSecrets) {
    const std::string name_key = fmt::format("{}{}-secret-name", prefix, keys.key);
    const std::string namespace_key = fmt::format("{}{}-secret-namespace", prefix, keys.key);
    known.insert({name_key, namespace_key});
    ASSIGN_OR_RETURN(SecretReference pair, ReadPair(parameters, name_key, namespace_key));
    if (!keys.deprecated.empty()) {
      ASSIGN_OR_RETURN(const SecretReference old,
                       ReadPair(parameters, fmt::format("{}Name", keys.deprecated),
                                fmt::format("{}Namespace", keys.deprecated)));
      if (!old.empty() && !pair.empty()) {
        return Error(StatusCode::kInvalidArgument,
                     "class parameters '{}' and the deprecated '{}Name' exclude each other",
                     name_key, keys.deprecated);
      }
      if (!old.empty()) pair = old;
    }
    if (pair.empty()) pair = fallback;
    if (!pair.empty()) out.templates_.emplace(keys.use, pair);
  }
  int fs_types = 0;
  for (const auto& [key, value] : parameters) {
    std::string lower = key;
    std::transform(lower.begin(), lower.end(), lower.begin(),
                   [](unsigned char c) { return std::tolower(c); });
    if (lower == "fstype" || key == prefix + "fstype") {
      ++fs_types;
      out.fs_type_ = value;
    }
    if (!key.starts_with(kPrefix)) {
      out.driver_parameters_.emplace(key, value);
    } else if (!known.contains(key)) {
      return Error(StatusCode::kInvalidArgument, "unknown class parameter '{}'", key);
    }
  }
  if (fs_types > 1) {
    return Error(StatusCode::kInvalidArgument, "the class gives the file system type {} times",
                 fs_types);
  }
  return out;
}

StatusOr<SecretReference> ClassParameters::Secret(SecretUse use, std::string_view volume_name,
                                                  const api::PersistentVolumeClaim& claim) const {
  const auto it = templates_.find(use);
  if (it == templates_.end()) return SecretReference{};
  Labels in_name = {{"pvc.name", claim.name()}};
  for (const auto& [key, value] : claim.annotations()) {
    in_name.emplace(fmt::format("pvc.annotations['{}']", key), value);
  }
  return FillSecret(
      it->second, {{"pv.name", std::string(volume_name)}, {"pvc.namespace", claim.ns()}}, in_name);
}

}  // namespace berth::controllers::provisioner
