#include "controllers/snapshot_names.h"

#include <array>
#include <set>

#include "controllers/secret_template.h"

namespace berth::controllers {

using api::Labels;
using api::SecretReference;
using base::Error;
using base::StatusCode;
using base::StatusOr;

namespace {

constexpr std::string_view kPrefix = "csi.storage.k8s.io/";
// Each key ends with "-name" or "-namespace" in a class. The keys of groups are known and not used.
constexpr std::array<std::string_view, 4> kSecretKeys = {
    "snapshotter-secret", "snapshotter-list-secret", "group-snapshotter-secret",
    "group-snapshotter-get-secret"};

std::string SecretKey(SnapshotSecret use) {
  return fmt::format("{}{}", kPrefix, kSecretKeys[use == SnapshotSecret::kList ? 1 : 0]);
}

}  // namespace

StatusOr<SecretReference> SnapshotClassSecret(const Labels& parameters, SnapshotSecret use,
                                              std::string_view content_name,
                                              const api::VolumeSnapshot* snapshot) {
  const std::string key = SecretKey(use);
  const auto name = parameters.find(key + "-name");
  const auto ns = parameters.find(key + "-namespace");
  if (name == parameters.end() && ns == parameters.end()) return SecretReference{};
  if (name == parameters.end() || ns == parameters.end()) {
    return Error(StatusCode::kInvalidArgument,
                 "class parameters '{0}-name' and '{0}-namespace' go "
                 "together: one is missing",
                 key);
  }
  Labels in_namespace = {{"volumesnapshotcontent.name", std::string(content_name)}};
  Labels in_name;
  if (snapshot != nullptr) {
    in_namespace["volumesnapshot.namespace"] = snapshot->ns();
    in_name["volumesnapshot.name"] = snapshot->name();
  }
  return FillSecret({.name = name->second, .ns = ns->second}, in_namespace, in_name);
}

StatusOr<Labels> SnapshotDriverParameters(const Labels& parameters) {
  std::set<std::string> known;
  for (const std::string_view key : kSecretKeys) {
    known.insert(fmt::format("{}{}-name", kPrefix, key));
    known.insert(fmt::format("{}{}-namespace", kPrefix, key));
  }
  Labels out;
  for (const auto& [key, value] : parameters) {
    if (!key.starts_with(kPrefix)) {
      out.emplace(key, value);
    } else if (!known.contains(key)) {
      return Error(StatusCode::kInvalidArgument, "unknown class parameter '{}'", key);
    }
  }
  return out;
}

}  // namespace berth::controllers
