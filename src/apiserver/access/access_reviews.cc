#include "apiserver/access/access_reviews.h"

#include "api/selector.h"
#include "api/time.h"
#include "apiserver/kinds/object_meta.h"
#include "apiserver/requests/body_decoder.h"

namespace berth::apiserver {

using base::Status;
using base::json::Array;
using base::json::Find;
using base::json::Map;
using base::json::String;

namespace {

namespace kinds = api::kinds;

Json UserJson(const http::User& user) {
  Json out = {{"username", user.name}};
  if (!user.uid.empty()) out["uid"] = user.uid;
  if (!user.groups.empty()) out["groups"] = user.groups;
  for (const auto& [key, values] : user.extra) {
    for (const std::string& value : values) out["extra"][key].push_back(value);
  }
  return out;
}

http::User UserOfSpec(const Json& spec) {
  http::User user{.name = String(spec, {"user"}),
                  .uid = String(spec, {"uid"}),
                  .groups = base::json::Strings(Array(spec, {"groups"})),
                  .extra = {}};
  for (const auto& [key, values] : Map(spec, {"extra"}).items()) {
    if (values.is_array()) user.extra.push_back({key, base::json::Strings(values)});
  }
  return user;
}

Status InvalidReviewError(const api::KindInfo& info, std::string_view field, std::string_view why) {
  FieldErrors errors;
  errors.Invalid(field, "", why);
  return errors.ToStatus(info, "");
}

// Adds the field selector of a review. A selector that cannot be parsed is ignored.
void AddFieldSelector(const Json& resource, AccessAttributes& asked) {
  const Json& selector = Map(resource, {"fieldSelector"});
  for (const Json& requirement : Array(selector, {"requirements"})) {
    const Json& values = Array(requirement, {"values"});
    if (String(requirement, {"operator"}) == "In" && values.size() == 1 && values[0].is_string()) {
      asked.fields.emplace_back(String(requirement, {"key"}), values[0].get<std::string>());
    }
  }
  const std::string raw = String(selector, {"rawSelector"});
  for (const api::KindInfo* info : api::BuiltInKinds()) {
    if (raw.empty() || info->group != asked.group || info->plural != asked.resource) continue;
    const auto parsed = api::FieldSelector::Parse(*info, raw);
    if (!parsed.ok()) return;
    for (const std::string_view field : {"metadata.name", "spec.nodeName"}) {
      if (auto value = parsed->RequiredValue(field)) {
        asked.fields.emplace_back(std::string(field), *std::move(value));
      }
    }
  }
}

// A request that selects one name counts as a request for that object, as in request_router.cc.
void SetNameFromSelector(AccessAttributes& asked) {
  if (asked.name.empty()) asked.name = asked.FieldValue("metadata.name");
}

base::StatusOr<AccessAttributes> AttributesOf(const api::KindInfo& info, const Json& spec) {
  const Json& resource = Map(spec, {"resourceAttributes"});
  const Json& path = Map(spec, {"nonResourceAttributes"});
  if (resource.empty() == path.empty()) {
    return InvalidReviewError(
        info, "spec.resourceAttributes",
        resource.empty() ? "exactly one of nonResourceAttributes or resourceAttributes must be "
                           "specified"
                         : "cannot be specified in combination with nonResourceAttributes");
  }
  if (!path.empty()) {
    return AccessAttributes{.verb = String(path, {"verb"}), .path = String(path, {"path"})};
  }
  AccessAttributes asked{.verb = String(resource, {"verb"}),
                         .group = String(resource, {"group"}),
                         .resource = String(resource, {"resource"}),
                         .subresource = String(resource, {"subresource"}),
                         .ns = String(resource, {"namespace"}),
                         .name = String(resource, {"name"})};
  AddFieldSelector(resource, asked);
  SetNameFromSelector(asked);
  return asked;
}

}  // namespace

base::StatusOr<Json> AccessReviews::ReviewAccess(const ResourceRequest& request, const Json& spec,
                                                 std::string_view only_ns, bool self) {
  ASSIGN_OR_RETURN(const AccessAttributes asked, AttributesOf(request.info(), spec));
  if (!only_ns.empty() && asked.ns != only_ns) {
    return InvalidReviewError(request.info(), "spec.resourceAttributes.namespace",
                              "must match metadata.namespace");
  }
  http::User other;
  if (!self) {
    other = UserOfSpec(spec);
    if (other.name.empty() && other.groups.empty()) {
      return InvalidReviewError(request.info(), "spec.user",
                                "at least one of user or group must be specified");
    }
  }
  const http::User& user = self ? *request.exchange->request().user : other;
  const Role role = self ? request.role : authorizer_.RoleOf(user);
  const Decision decision = authorizer_.Decide(user, role, asked);
  Json status = {{"allowed", decision.allowed}};
  if (!decision.reason.empty()) status["reason"] = decision.reason;
  return status;
}

Json AccessReviews::ReviewToken(const Json& spec) {
  const auto owner = authenticator_.OwnerOf(String(spec, {"token"}),
                                            base::json::Strings(Array(spec, {"audiences"})));
  if (!owner.ok()) {
    return {{"user", Json::object()}, {"error", std::string(base::Message(owner.status()))}};
  }
  return {
      {"authenticated", true}, {"user", UserJson(owner->user)}, {"audiences", owner->audiences}};
}

base::StatusOr<Json> AccessReviews::AnswerStatus(const ResourceRequest& request,
                                                 const Json& review) {
  const api::KindInfo* info = request.rules->info;
  const Json& spec = Map(review, {"spec"});
  if (info == &kinds::kSelfSubjectReview) {
    return Json{{"userInfo", UserJson(*request.exchange->request().user)}};
  }
  if (info == &kinds::kTokenReview) {
    if (String(spec, {"token"}).empty()) {
      return KubeError(Reason::kBadRequest, "token is required for TokenReview in authentication");
    }
    return ReviewToken(spec);
  }
  if (info == &kinds::kSelfSubjectRulesReview) {
    if (String(spec, {"namespace"}).empty()) {
      return KubeError(Reason::kBadRequest, "no namespace on request");
    }
    return authorizer_.RulesOf(request.role);
  }
  if (info == &kinds::kLocalSubjectAccessReview) {
    return ReviewAccess(request, spec, request.ns, false);
  }
  return ReviewAccess(request, spec, "", info == &kinds::kSelfSubjectAccessReview);
}

void AccessReviews::AnswerReview(const ResourceRequest& request) {
  const auto answer = [&]() -> Status {
    RETURN_IF_ERROR(IsDryRun(request.query));
    ASSIGN_OR_RETURN(Json review, DecodeObject(request));
    RETURN_IF_ERROR(FillNamespace(request.info(), request.ns, review));
    ASSIGN_OR_RETURN(Json status, AnswerStatus(request, review));
    review["metadata"]["creationTimestamp"] = api::FormatTime(context_.clock.Now());
    // The answer does not repeat the token, because only its owner may know it.
    if (request.rules->info == &kinds::kTokenReview) base::json::Remove(review, {"spec", "token"});
    review["status"] = std::move(status);
    ReplyObject(*request.exchange, 201, base::json::Dump(review));
    return base::OkStatus();
  };
  if (const Status status = answer(); !status.ok()) ReplyError(*request.exchange, status);
}

}  // namespace berth::apiserver
