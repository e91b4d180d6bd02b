#include "apiserver/access/authentication.h"

#include "api/names.h"
#include "api/time.h"
#include "apiserver/formats/kube_status.h"
#include "apiserver/formats/object_text.h"
#include "base/log.h"

namespace berth::apiserver {

using base::Error;
using base::Json;
using base::Status;
using base::StatusCode;
using base::json::Array;
using base::json::Find;
using base::json::Int;
using base::json::Map;
using base::json::String;

namespace {

constexpr std::string_view kAuthenticated = "system:authenticated";
// A token that is bound to an object stays valid for this long after the object's
// deletionTimestamp.
constexpr std::chrono::seconds kDeletionLeeway{60};

std::vector<std::string> AccountGroups(std::string_view ns) {
  return {"system:serviceaccounts", fmt::format("system:serviceaccounts:{}", ns)};
}

void AddGroup(http::User& user, std::string_view group) {
  if (std::find(user.groups.begin(), user.groups.end(), group) == user.groups.end()) {
    user.groups.emplace_back(group);
  }
}

void AddExtra(http::User& user, std::string_view key, const std::string& value) {
  if (value.empty()) return;
  user.extra.push_back({fmt::format("authentication.kubernetes.io/{}", key), {value}});
}

Status InvalidTokenError(std::string_view why) {
  return Error(StatusCode::kUnauthenticated, "invalid bearer token: {}", why);
}

}  // namespace

bool IsPublicPath(std::string_view path) {
  for (const std::string_view open : {"/healthz", "/livez", "/readyz", "/version"}) {
    if (path == open || (path.starts_with(open) && path.substr(open.size()) == "/")) return true;
  }
  return false;
}

std::string_view BearerToken(const http::Request& request) {
  constexpr std::string_view kScheme = "Bearer ";
  std::string_view value = request.Header("Authorization");
  if (!http::EqualsIgnoreCase(value.substr(0, kScheme.size()), kScheme)) return {};
  value.remove_prefix(kScheme.size());
  while (value.starts_with(' ')) value.remove_prefix(1);
  return value;
}

Status UnauthorizedError() { return KubeError(Reason::kUnauthorized, "Unauthorized"); }

base::StatusOr<std::shared_ptr<const http::User>> Authenticator::Identify(
    const http::Request& request) {
  std::shared_ptr<http::User> user;
  if (request.user != nullptr) {
    if (request.user->valid_until < clock_.Now()) return UnauthorizedError();
    if (revocations_.IsRevoked(*request.user)) {
      LogRefusal(request,
                 base::Error(base::StatusCode::kUnauthenticated, "the certificate of {} is revoked",
                             base::Quote(request.user->name)));
      return UnauthorizedError();
    }
    user = std::make_shared<http::User>(*request.user);
  } else {
    const std::string_view token = BearerToken(request);
    if (token.empty()) return UnauthorizedError();
    auto owner = OwnerOf(token, {});
    if (!owner.ok()) {
      // Only the log gets the reason why a token is refused.
      LogRefusal(request, owner.status());
      return UnauthorizedError();
    }
    user = std::make_shared<http::User>(std::move(owner->user));
  }
  AddGroup(*user, kAuthenticated);
  return user;
}

void Authenticator::LogRefusal(const http::Request& request, const Status& why) {
  const auto now = clock_.Now();
  base::MutexLock lock(mutex_);
  // The clock may have been set back.
  if (now >= window_ + kRefusalWindow || now < window_) {
    if (refusals_ > kMaxRefusals) {
      LOG_INFO("api: {} further requests are refused", refusals_ - kMaxRefusals);
    }
    window_ = now;
    refusals_ = 0;
  }
  if (++refusals_ > kMaxRefusals) return;
  LOG_INFO("api: {} {} is refused: {}", base::Quote(request.method),
           base::Quote(request.raw_path()), base::Message(why));
}

base::StatusOr<Authenticator::TokenOwner> Authenticator::OwnerOf(
    std::string_view token, const std::vector<std::string>& audiences) {
  if (StaticTokens::HasTokenForm(token)) {
    ASSIGN_OR_RETURN(http::User user, static_tokens_.OwnerOf(token, clock_.Now()));
    // A person's token is valid only for the API.
    const std::string api(kTokenIssuer);
    if (!audiences.empty() &&
        std::find(audiences.begin(), audiences.end(), api) == audiences.end()) {
      return InvalidTokenError("it is for another audience");
    }
    AddGroup(user, kAuthenticated);
    return TokenOwner{.user = std::move(user), .audiences = {api}};
  }
  ASSIGN_OR_RETURN(const Json claims, signer_.Verify(token));
  return OwnerOfClaims(claims, audiences);
}

base::StatusOr<Authenticator::TokenOwner> Authenticator::OwnerOfClaims(
    const Json& claims, const std::vector<std::string>& audiences) {
  const int64_t now = std::chrono::system_clock::to_time_t(clock_.Now());
  if (now >= Int(claims, {"exp"})) return InvalidTokenError("service account token has expired");
  if (now < Int(claims, {"nbf"}))
    return InvalidTokenError("service account token is not valid yet");
  TokenOwner owner;
  const std::vector<std::string> api = {std::string(kTokenIssuer)};
  const std::vector<std::string> allowed = base::json::Strings(Array(claims, {"aud"}));
  for (const std::string& asked : audiences.empty() ? api : audiences) {
    if (std::find(allowed.begin(), allowed.end(), asked) != allowed.end()) {
      owner.audiences.push_back(asked);
    }
  }
  if (owner.audiences.empty()) return InvalidTokenError("it is for another audience");

  const Json& bound = Map(claims, {"kubernetes.io"});
  const std::string ns = String(bound, {"namespace"});
  const Json& account = Map(bound, {"serviceaccount"});
  const Json& pod = Map(bound, {"pod"});
  const Json& node = Map(bound, {"node"});
  const std::string name = String(account, {"name"});
  if (String(claims, {"sub"}) != fmt::format("system:serviceaccount:{}:{}", ns, name)) {
    return InvalidTokenError("its subject is not its service account");
  }
  RETURN_IF_ERROR(CheckAlive(api::kinds::kServiceAccount, ns, account));
  if (!pod.empty()) RETURN_IF_ERROR(CheckAlive(api::kinds::kPod, ns, pod));
  if (const Json& secret = Map(bound, {"secret"}); !secret.empty()) {
    RETURN_IF_ERROR(CheckAlive(api::kinds::kSecret, ns, secret));
  }
  // A pod's token names its node only as information, so the node does not have to exist.
  if (pod.empty() && !node.empty()) RETURN_IF_ERROR(CheckAlive(api::kinds::kNode, "", node));

  http::User& user = owner.user;
  user.name = String(claims, {"sub"});
  user.uid = String(account, {"uid"});
  user.groups = AccountGroups(ns);
  AddGroup(user, kAuthenticated);
  AddExtra(user, "credential-id", "JTI=" + String(claims, {"jti"}));
  AddExtra(user, "node-name", String(node, {"name"}));
  AddExtra(user, "node-uid", String(node, {"uid"}));
  AddExtra(user, "pod-name", String(pod, {"name"}));
  AddExtra(user, "pod-uid", String(pod, {"uid"}));
  return owner;
}

Status Authenticator::CheckAlive(const api::KindInfo& kind, std::string_view ns,
                                 const Json& reference) const {
  const std::string name = String(reference, {"name"});
  const auto record = store_.Get(ObjectStoreKey(kind, ns, name));
  const std::string object_text = fmt::format("{} {}", kind.singular, base::Quote(name));
  if (record.status().code() == StatusCode::kNotFound) {
    return InvalidTokenError(fmt::format("{} is gone", object_text));
  }
  RETURN_IF_ERROR(record);
  ASSIGN_OR_RETURN(const Json object, DecodeStored(*record->value));
  if (String(object, {"metadata", "uid"}) != String(reference, {"uid"})) {
    return InvalidTokenError(fmt::format("{} is now another object", object_text));
  }
  const std::string deleted = String(object, {"metadata", "deletionTimestamp"});
  if (deleted.empty()) return base::OkStatus();
  const auto when = api::ParseTime(deleted);
  if (when.ok() && *when + kDeletionLeeway >= clock_.Now()) return base::OkStatus();
  return InvalidTokenError(fmt::format("{} has been deleted", object_text));
}

base::StatusOr<std::shared_ptr<const http::User>> FindImpersonatedUser(const http::Request& request,
                                                                       const http::User& user,
                                                                       const Role& role) {
  constexpr std::string_view kExtra = "Impersonate-Extra-";
  auto wanted = std::make_shared<http::User>();
  bool asked = false;
  for (const auto& [name, value] : request.headers) {
    if (http::EqualsIgnoreCase(name, "Impersonate-User")) {
      wanted->name = value;
    } else if (http::EqualsIgnoreCase(name, "Impersonate-Group")) {
      wanted->groups.push_back(value);
    } else if (http::EqualsIgnoreCase(name, "Impersonate-Uid")) {
      wanted->uid = value;
    } else if (name.size() > kExtra.size() &&
               http::EqualsIgnoreCase(std::string_view(name).substr(0, kExtra.size()), kExtra)) {
      const std::string key = api::LowerCase(std::string_view(name).substr(kExtra.size()));
      const auto decoded = http::PercentDecode(key, false);
      wanted->extra.push_back({decoded.value_or(key), {value}});
    } else {
      continue;
    }
    asked = true;
  }
  if (!asked) return nullptr;
  if (wanted->name.empty()) {
    return KubeError(Reason::kBadRequest, "the Impersonate headers name no user to act as");
  }
  if (role.kind != Role::Kind::kAdministrator) {
    return AccessDeniedError(
        user, {.verb = "impersonate", .resource = "users", .name = wanted->name}, "");
  }
  const auto account = ServiceAccountOf(wanted->name);
  if (account && wanted->groups.empty()) wanted->groups = AccountGroups(account->first);
  AddGroup(*wanted, kAuthenticated);
  return wanted;
}

}  // namespace berth::apiserver
