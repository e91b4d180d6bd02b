#include "volume/csi/node_inputs.h"

#include "base/base64.h"
#include "base/utf8.h"

namespace berth::volume::csi_volume {
namespace {

using base::Error;
using base::StatusCode;

constexpr std::string_view kTokensKey = "csi.storage.k8s.io/serviceAccount.tokens";

// {"AUDIENCE": {"token": "...", "expirationTimestamp": "..."}}
StatusOr<std::string> RequestTokens(TokenCache& cache, const api::Pod& pod,
                                    const Json& token_requests) {
  Json tokens = Json::object();
  for (const Json& wanted : token_requests) {
    const std::string audience = base::json::String(wanted, {"audience"});
    const auto token =
        cache.GetToken(pod, audience, base::json::Int(wanted, {"expirationSeconds"}, 0));
    RETURN_IF_ERROR_WITH(token, fmt::format("token of service account '{}' for audience '{}'",
                                            pod.service_account_name(), audience));
    tokens[audience] = {{"token", token->text}, {"expirationTimestamp", token->expiration}};
  }
  return base::json::Dump(tokens);
}

}  // namespace

StatusOr<csi::v1::NodeStageVolumeRequest> MakeStageRequest(
    Host& host, const Volume& volume, const platform::StagingPath& staging,
    const api::Labels& publish_context, const csi::v1::VolumeCapability& capability) {
  csi::v1::NodeStageVolumeRequest request;
  request.set_volume_id(volume.handle);
  request.set_staging_target_path(staging.text());
  AssignLabels(publish_context, *request.mutable_publish_context());
  AssignLabels(volume.attributes, *request.mutable_volume_context());
  *request.mutable_volume_capability() = capability;
  ASSIGN_OR_RETURN(*request.mutable_secrets(), ReadSecret(host, volume.stage_secret));
  return request;
}

csi::v1::NodeUnstageVolumeRequest MakeUnstageRequest(const api::VolumeHandle& handle,
                                                     const platform::StagingPath& staging) {
  csi::v1::NodeUnstageVolumeRequest request;
  request.set_volume_id(handle.text());
  request.set_staging_target_path(staging.text());
  return request;
}

csi::v1::NodeUnpublishVolumeRequest MakeUnpublishRequest(const api::VolumeHandle& handle,
                                                         const platform::TargetPath& target) {
  csi::v1::NodeUnpublishVolumeRequest request;
  request.set_volume_id(handle.text());
  request.set_target_path(target.text());
  return request;
}

void AssignLabels(const api::Labels& from, StringMap& to) { to.insert(from.begin(), from.end()); }

StatusOr<api::CsiDriver> ReadDriverObject(Host& host, const std::string& driver) {
  auto object = host.GetObject(api::kinds::kCsiDriver, "", driver);
  if (object.status().code() == StatusCode::kNotFound) return api::CsiDriver();
  RETURN_IF_ERROR_WITH(object, fmt::format("read CSIDriver '{}'", driver));
  return api::CsiDriver(*std::move(object));
}

StatusOr<StringMap> ReadSecret(Host& host, const api::SecretReference& reference) {
  StringMap values;
  if (reference.empty()) return values;
  const auto object = host.GetObject(api::kinds::kSecret, reference.ns, reference.name);
  RETURN_IF_ERROR_WITH(object, fmt::format("read secret '{}/{}'", reference.ns, reference.name));
  for (const auto& [key, encoded] : base::json::Map(*object, {"data"}).items()) {
    const auto value =
        encoded.is_string() ? base::DecodeBase64(encoded.get<std::string>()) : std::nullopt;
    if (!value.has_value() || !base::IsUtf8(*value)) {
      return Error(StatusCode::kInvalidArgument,
                   "secret '{}/{}': the value of '{}' is not text, which CSI requires",
                   reference.ns, reference.name, key);
    }
    values[key] = *value;
  }
  return values;
}

bool HasSecretTokens(const api::CsiDriver& driver) {
  return driver.Bool({"spec", "serviceAccountTokenInSecrets"}) &&
         !base::json::Array(driver.json(), {"spec", "tokenRequests"}).empty();
}

Status AddPodInputs(TokenCache& cache, const api::Pod& pod, const Volume& volume,
                    const api::CsiDriver& driver, StringMap& context, StringMap& secrets) {
  if (driver.pod_info_on_mount()) {
    context["csi.storage.k8s.io/pod.name"] = pod.name();
    context["csi.storage.k8s.io/pod.namespace"] = pod.ns();
    context["csi.storage.k8s.io/pod.uid"] = pod.uid();
    context["csi.storage.k8s.io/serviceAccount.name"] = pod.service_account_name();
    context["csi.storage.k8s.io/ephemeral"] = volume.ephemeral ? "true" : "false";
  }
  const Json& token_requests = base::json::Array(driver.json(), {"spec", "tokenRequests"});
  if (token_requests.empty()) return base::OkStatus();
  ASSIGN_OR_RETURN(std::string tokens, RequestTokens(cache, pod, token_requests));
  StringMap& place = HasSecretTokens(driver) ? secrets : context;
  place[std::string(kTokensKey)] = std::move(tokens);
  return base::OkStatus();
}

}  // namespace berth::volume::csi_volume
