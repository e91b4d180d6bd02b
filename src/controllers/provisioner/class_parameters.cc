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
  std::string_view key;         // with "secret-name" and "secret-namespace" behind it
  std::string_view deprecated;  // with "Name" and "Namespace" behind it; "": never existed
};
constexpr std::array<SecretKeys, 7> kSecrets = {{
    {SecretUse::kProvisioner, "provisioner-", "csiProvisionerSecret"},
    {SecretUse::kControllerPublish, "controller-publish-", "csiControllerPublishSecret"},
    {SecretUse::kNodeStage, "node-stage-", "csiNodeStageSecret"},
    {SecretUse::kNodePublish, "node-publish-", "csiNodePublishSecret"},
    {SecretUse::kControllerExpand, "controller-expand-", ""},
    {SecretUse::kNodeExpand, "node-expand-", ""},
    {SecretUse::kControllerModify, "controller-modify-", ""},
}};

// A parameter that a key gives, or its deprecated form.
struct Parameter {
  std::string key;
  const std::string* value = nullptr;  // nullptr: it is absent
};

// `deprecated` may be "". INVALID_ARGUMENT: the class has both.
StatusOr<Parameter> FindParameter(const Labels& parameters, const std::string& key,
                                  const std::string& deprecated) {
  Parameter found{.key = key};
  for (const std::string& one : {key, deprecated}) {
    const auto entry = parameters.find(one);
    if (one.empty() || entry == parameters.end()) continue;
    if (found.value != nullptr) {
      return Error(StatusCode::kInvalidArgument,
                   "class parameters '{}' and the deprecated '{}' exclude each other", key,
                   deprecated);
    }
    found = {.key = one, .value = &entry->second};
  }
  return found;
}

StatusOr<SecretReference> MakePair(const Parameter& name, const Parameter& ns) {
  if (name.value == nullptr && ns.value == nullptr) return SecretReference{};
  if (name.value == nullptr || ns.value == nullptr) {
    return Error(StatusCode::kInvalidArgument, "class parameter '{}' needs '{}' beside it",
                 name.value == nullptr ? ns.key : name.key,
                 name.value == nullptr ? name.key : ns.key);
  }
  if (name.value->empty() || ns.value->empty()) {
    return Error(StatusCode::kInvalidArgument, "class parameter '{}' is empty",
                 name.value->empty() ? name.key : ns.key);
  }
  return SecretReference{.name = *name.value, .ns = *ns.value};
}

std::string NameKey(std::string_view use) { return fmt::format("{}{}secret-name", kPrefix, use); }
std::string NamespaceKey(std::string_view use) {
  return fmt::format("{}{}secret-namespace", kPrefix, use);
}

// The templates of the use, or those that the class has for all uses. Name and namespace may have
// keys of different age.
StatusOr<SecretReference> ReadTemplates(const Labels& parameters, const SecretKeys& keys) {
  const auto deprecated = [&keys](std::string_view part) {
    return keys.deprecated.empty() ? std::string() : fmt::format("{}{}", keys.deprecated, part);
  };
  ASSIGN_OR_RETURN(const Parameter name,
                   FindParameter(parameters, NameKey(keys.key), deprecated("Name")));
  ASSIGN_OR_RETURN(const Parameter ns,
                   FindParameter(parameters, NamespaceKey(keys.key), deprecated("Namespace")));
  ASSIGN_OR_RETURN(SecretReference pair, MakePair(name, ns));
  if (!pair.empty()) return pair;
  ASSIGN_OR_RETURN(const Parameter of_all, FindParameter(parameters, NameKey(""), ""));
  ASSIGN_OR_RETURN(const Parameter ns_of_all, FindParameter(parameters, NamespaceKey(""), ""));
  return MakePair(of_all, ns_of_all);
}

}  // namespace

StatusOr<ClassParameters> ClassParameters::Parse(const Labels& parameters) {
  ClassParameters out;
  const std::string prefix(kPrefix);
  std::set<std::string> known = {prefix + "fstype", NameKey(""), NamespaceKey("")};
  for (const SecretKeys& keys : kSecrets) {
    known.insert({NameKey(keys.key), NamespaceKey(keys.key)});
    ASSIGN_OR_RETURN(SecretReference templates, ReadTemplates(parameters, keys));
    if (!templates.empty()) out.templates_.emplace(keys.use, std::move(templates));
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

StatusOr<ClassParameters> ClassParameters::ParseSecret(const Labels& parameters, SecretUse use) {
  ClassParameters out;
  for (const SecretKeys& keys : kSecrets) {
    if (keys.use != use) continue;
    ASSIGN_OR_RETURN(SecretReference templates, ReadTemplates(parameters, keys));
    if (!templates.empty()) out.templates_.emplace(use, std::move(templates));
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
