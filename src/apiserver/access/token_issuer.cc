#include "apiserver/access/token_issuer.h"

#include "api/time.h"
#include "apiserver/access/node_restriction.h"
#include "apiserver/requests/body_decoder.h"
#include "base/ids.h"

namespace berth::apiserver {

using base::Status;
using base::StatusCode;
using base::json::Array;
using base::json::Int;
using base::json::Map;
using base::json::String;

namespace {

// Seconds.
constexpr int64_t kDefaultLife = 3600;
constexpr int64_t kMinLife = 600;
constexpr int64_t kMaxLife = int64_t{1} << 32;

base::StatusOr<int64_t> LifeOf(const Json& spec) {
  const int64_t life = Int(spec, {"expirationSeconds"}, kDefaultLife);
  if (life >= kMinLife && life <= kMaxLife) return life;
  const std::string_view why = life < kMinLife
                                   ? "may not specify a duration less than 10 minutes"
                                   : "may not specify a duration larger than 2^32 seconds";
  return KubeError(Reason::kInvalid,
                   fmt::format("TokenRequest.authentication.k8s.io \"\" is invalid: "
                               "spec.expirationSeconds: Invalid value: {}: {}",
                               life, why),
                   {.group = "authentication.k8s.io",
                    .kind = "TokenRequest",
                    .causes = {{.reason = "FieldValueInvalid",
                                .message = fmt::format("Invalid value: {}: {}", life, why),
                                .field = "spec.expirationSeconds"}}});
}

base::StatusOr<Json> AudiencesOf(const Json& spec) {
  Json audiences = Array(spec, {"audiences"});
  for (const Json& audience : audiences) {
    if (!audience.is_string()) {
      return KubeError(Reason::kBadRequest, "spec.audiences must be a list of strings");
    }
  }
  if (audiences.empty()) audiences.push_back(std::string(kTokenIssuer));
  return audiences;
}

Status TranslateNotFound(const Status& status, const api::KindInfo& kind, std::string_view name) {
  return status.code() == StatusCode::kNotFound ? NotFoundError(kind, name) : status;
}

// If the reference has a uid, the object must have the same one.
Status CheckUid(const api::KindInfo& kind, const Json& reference, const Json& object) {
  const std::string uid = String(object, {"metadata", "uid"});
  const std::string asked = String(reference, {"uid"});
  if (asked.empty() || asked == uid) return base::OkStatus();
  return ConflictError(
      kind, String(reference, {"name"}),
      fmt::format("the UID in the bound object reference ({}) does not match the UID in "
                  "record. The object might have been deleted and then recreated",
                  asked));
}

Json MakeReference(const Json& object) {
  return {{"name", String(object, {"metadata", "name"})},
          {"uid", String(object, {"metadata", "uid"})}};
}

}  // namespace

Status TokenIssuer::BindPod(const ResourceRequest& request, const Json& reference,
                            const base::StatusOr<Json>& pod, Json& claims) const {
  RETURN_IF_ERROR(pod);
  RETURN_IF_ERROR(CheckUid(api::kinds::kPod, reference, *pod));
  if (String(*pod, {"spec", "serviceAccountName"}) != request.name) {
    return KubeError(Reason::kBadRequest,
                     fmt::format("cannot bind token for serviceaccount \"{}\" to pod running with "
                                 "different serviceaccount name.",
                                 request.name));
  }
  claims["pod"] = MakeReference(*pod);
  const std::string node = String(*pod, {"spec", "nodeName"});
  if (node.empty()) return base::OkStatus();
  claims["node"] = {{"name", node}};
  StoreLookup lookup(context_.store);
  // The node may be missing, because a pod may be bound to a node that has no object yet.
  const auto object = lookup.Get(api::kinds::kNode, "", node);
  if (object.ok()) claims["node"] = MakeReference(*object);
  return object.ok() || object.status().code() == StatusCode::kNotFound ? base::OkStatus()
                                                                        : object.status();
}

Status TokenIssuer::BindToken(const ResourceRequest& request, const Json& spec,
                              Json& claims) const {
  const Json& reference = Map(spec, {"boundObjectRef"});
  const std::string kind = String(reference, {"kind"});
  const std::string name = String(reference, {"name"});
  StoreLookup lookup(context_.store);
  if (request.role.kind == Role::Kind::kNode) {
    const auto pod = kind == "Pod" ? lookup.Get(api::kinds::kPod, request.ns, name)
                                   : base::StatusOr<Json>(Json());
    if (!pod.ok() && pod.status().code() != StatusCode::kNotFound) return pod.status();
    const api::NodeName node(request.role.node);
    RETURN_IF_ERROR(
        CheckNodeTokenRequest(node, request.name, reference, pod.ok() ? &*pod : nullptr));
    RETURN_IF_ERROR(CheckUid(api::kinds::kPod, reference, *pod));
    RETURN_IF_ERROR(
        CheckNodeTokenAudience(node, request.name, Array(spec, {"audiences"}), *pod, lookup));
  }
  if (reference.empty()) return base::OkStatus();
  const api::KindInfo* info = kind == "Pod"      ? &api::kinds::kPod
                              : kind == "Secret" ? &api::kinds::kSecret
                              : kind == "Node"   ? &api::kinds::kNode
                                                 : nullptr;
  if (info == nullptr || String(reference, {"apiVersion"}, "v1") != "v1") {
    return KubeError(Reason::kBadRequest,
                     fmt::format("cannot bind token to object of kind \"{}\": a token can be bound "
                                 "only to a Pod, Secret or Node of v1",
                                 kind));
  }
  auto object = lookup.Get(*info, info->namespaced ? request.ns : "", name);
  if (!object.ok()) return TranslateNotFound(object.status(), *info, name);
  if (info == &api::kinds::kPod) return BindPod(request, reference, object, claims);
  RETURN_IF_ERROR(CheckUid(*info, reference, *object));
  claims[std::string(info->singular)] = MakeReference(*object);
  return base::OkStatus();
}

base::StatusOr<Json> TokenIssuer::SignToken(const ResourceRequest& request, Json body) const {
  StoreLookup lookup(context_.store);
  const auto account = lookup.Get(request.info(), request.ns, request.name);
  if (!account.ok()) return TranslateNotFound(account.status(), request.info(), request.name);
  const Json spec = Map(body, {"spec"});
  ASSIGN_OR_RETURN(const int64_t life, LifeOf(spec));
  ASSIGN_OR_RETURN(const Json audiences, AudiencesOf(spec));
  Json bound = {{"namespace", request.ns}, {"serviceaccount", MakeReference(*account)}};
  RETURN_IF_ERROR(BindToken(request, spec, bound));
  const auto now = context_.clock.Now();
  const int64_t seconds = std::chrono::system_clock::to_time_t(now);
  const Json claims = {
      {"iss", std::string(kTokenIssuer)},
      {"sub", fmt::format("system:serviceaccount:{}:{}", request.ns, request.name)},
      {"aud", audiences},
      {"iat", seconds},
      {"nbf", seconds},
      {"exp", seconds + life},
      {"jti", base::NewUuid()},
      {"kubernetes.io", std::move(bound)}};
  ASSIGN_OR_RETURN(const std::string token, signer_.Sign(claims));
  body["apiVersion"] = "authentication.k8s.io/v1";
  body["kind"] = "TokenRequest";
  body["metadata"] = {{"name", request.name},
                      {"namespace", request.ns},
                      {"creationTimestamp", api::FormatTime(now)}};
  body["spec"] = spec;
  body["spec"]["audiences"] = audiences;
  body["spec"]["expirationSeconds"] = life;
  body["status"] = {{"token", token},
                    {"expirationTimestamp", api::FormatTime(now + std::chrono::seconds(life))}};
  return body;
}

void TokenIssuer::IssueToken(const ResourceRequest& request) const {
  const auto issue = [&]() -> Status {
    ASSIGN_OR_RETURN(Json body,
                     DecodeBody(request, api::SchemaOf("authentication.k8s.io/v1", "TokenRequest"),
                                "TokenRequest"));
    if (!body.is_object()) return KubeError(Reason::kBadRequest, "the body must be a TokenRequest");
    ASSIGN_OR_RETURN(const Json answer, SignToken(request, std::move(body)));
    ReplyObject(*request.exchange, 201, base::json::Dump(answer));
    return base::OkStatus();
  };
  if (const Status status = issue(); !status.ok()) ReplyError(*request.exchange, status);
}

}  // namespace berth::apiserver
