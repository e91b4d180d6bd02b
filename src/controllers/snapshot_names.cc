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
// Each key ends with "-name" or "-namespace" in a class.
constexpr std::string_view kSnapshotterSecret = "snapshotter-secret";
constexpr std::string_view kListSecret = "snapshotter-list-secret";
constexpr std::string_view kGroupSnapshotterSecret = "group-snapshotter-secret";
constexpr std::string_view kGroupGetSecret = "group-snapshotter-get-secret";
constexpr std::array kSecretKeys = {kSnapshotterSecret, kListSecret, kGroupSnapshotterSecret,
                                    kGroupGetSecret};

StatusOr<SecretReference> FindSecret(const Labels& parameters, std::string_view secret,
                                     const Labels& in_namespace, const Labels& in_name) {
  const std::string key = fmt::format("{}{}", kPrefix, secret);
  const auto name = parameters.find(key + "-name");
  const auto ns = parameters.find(key + "-namespace");
  if (name == parameters.end() && ns == parameters.end()) return SecretReference{};
  if (name == parameters.end() || ns == parameters.end()) {
    return Error(StatusCode::kInvalidArgument,
                 "class parameters '{0}-name' and '{0}-namespace' go "
                 "together: one is missing",
                 key);
  }
  return FillSecret({.name = name->second, .ns = ns->second}, in_namespace, in_name);
}

}  // namespace

bool IsGroupMember(const api::VolumeSnapshotContent& content) {
  return !content.group_handle().empty() || content.has_annotation(kGroupHandle);
}

StatusOr<SecretReference> SnapshotClassSecret(const Labels& parameters, SnapshotSecret use,
                                              std::string_view content_name,
                                              const api::VolumeSnapshot* snapshot) {
  Labels in_namespace = {{"volumesnapshotcontent.name", std::string(content_name)}};
  Labels in_name;
  if (snapshot != nullptr) {
    in_namespace["volumesnapshot.namespace"] = snapshot->ns();
    in_name["volumesnapshot.name"] = snapshot->name();
  }
  return FindSecret(parameters, use == SnapshotSecret::kList ? kListSecret : kSnapshotterSecret,
                    in_namespace, in_name);
}

StatusOr<SecretReference> GroupClassSecret(const Labels& parameters, GroupSecret use,
                                           std::string_view content_name,
                                           const api::VolumeGroupSnapshot* group) {
  Labels in_namespace = {{"volumegroupsnapshotcontent.name", std::string(content_name)}};
  Labels in_name;
  if (group != nullptr) {
    in_namespace["volumegroupsnapshot.namespace"] = group->ns();
    in_name["volumegroupsnapshot.name"] = group->name();
  }
  return FindSecret(parameters,
                    use == GroupSecret::kGet ? kGroupGetSecret : kGroupSnapshotterSecret,
                    in_namespace, in_name);
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
