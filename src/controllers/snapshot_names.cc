#include "controllers/snapshot_names.h"

#include <array>
#include <set>

#include "api/names.h"

namespace berth::controllers {

using api::Labels;
using api::SecretReference;
using base::Error;
using base::StatusCode;
using base::StatusOr;

namespace {

constexpr std::string_view kPrefix = "csi.storage.k8s.io/";
// Each with "-name" and "-namespace" behind it; those of groups are known and not used here.
constexpr std::array<std::string_view, 4> kSecretKeys = {
    "snapshotter-secret", "snapshotter-list-secret", "group-snapshotter-secret",
    "group-snapshotter-get-secret"};

std::string SecretKey(SnapshotSecret use) {
  return fmt::format("{}{}", kPrefix, kSecretKeys[use == SnapshotSecret::kList ? 1 : 0]);
}

// `text` with each ${token} replaced by its value.
StatusOr<std::string> Fill(std::string_view text, const Labels& tokens) {
  std::string out;
  while (!text.empty()) {
    const size_t start = text.find("${");
    out += text.substr(0, start);
    if (start == std::string_view::npos) break;
    text.remove_prefix(start);
    const size_t end = text.find('}');
    const std::string token(text.substr(2, end == std::string_view::npos ? end : end - 2));
    const auto value = tokens.find(token);
    if (end == std::string_view::npos || value == tokens.end()) {
      return Error(StatusCode::kInvalidArgument, "unknown token '{}'",
                   text.substr(0, end == std::string_view::npos ? end : end + 1));
    }
    out += value->second;
    text.remove_prefix(end + 1);
  }
  return out;
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
  Labels tokens = {{"volumesnapshotcontent.name", std::string(content_name)}};
  if (snapshot != nullptr) tokens["volumesnapshot.namespace"] = snapshot->ns();
  SecretReference out;
  ASSIGN_OR_RETURN(out.ns, Fill(ns->second, tokens));
  if (snapshot != nullptr) tokens["volumesnapshot.name"] = snapshot->name();
  ASSIGN_OR_RETURN(out.name, Fill(name->second, tokens));
  RETURN_IF_ERROR_WITH(api::CheckDns1123Label(out.ns),
                       fmt::format("class parameter '{}-namespace'", key));
  RETURN_IF_ERROR_WITH(api::CheckDns1123Subdomain(out.name),
                       fmt::format("class parameter '{}-name'", key));
  return out;
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
