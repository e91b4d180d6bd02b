#include "apiserver/request_router.h"

#include "api/names.h"
#include "api/selector.h"
#include "base/log.h"

namespace berth::apiserver {

using base::Status;

namespace {

// The answer if the server ends, or the system gives it no thread.
Status NoWorkerError() {
  return KubeError(Reason::kServiceUnavailable, "the server cannot run the request now",
                   {.retry_after_seconds = 1});
}

// Runs a handler. If it throws, its client gets an error and the server continues.
void RunGuarded(http::Exchange& exchange, const std::function<void()>& handler) {
  try {
    handler();
  } catch (const std::exception& error) {
    const http::Request& request = exchange.request();
    LOG_ERROR("api: {} {} failed: {}", request.method, base::Quote(request.raw_path()),
              error.what());
    ReplyError(exchange, KubeError(Reason::kInternalError,
                                   "the request failed because of an error in the server"));
  }
}

AccessAttributes AttributesOf(const ResourceRequest& request) {
  const api::KindInfo& info = request.info();
  AccessAttributes asked{.verb = request.verb,
                         .group = std::string(info.group),
                         .resource = std::string(info.plural),
                         .subresource = request.subresource,
                         // The namespace of a Namespace object is its own name.
                         .ns = &info == &api::kinds::kNamespace ? request.name : request.ns,
                         .name = request.name};
  const std::string& selector = request.query.Get("fieldSelector");
  if (selector.empty()) return asked;
  const auto fields = api::FieldSelector::Parse(info, selector);
  if (!fields.ok()) return asked;  // the handler reports the error
  for (const std::string_view field : {"metadata.name", "spec.nodeName"}) {
    if (auto value = fields->RequiredValue(field)) {
      asked.fields.emplace_back(std::string(field), *std::move(value));
    }
  }
  // A list that selects one name counts as a request for that object.
  if (asked.name.empty()) asked.name = asked.FieldValue("metadata.name");
  return asked;
}

// The document at `path`, if it is one of those with which other programs verify service account
// tokens (OpenID Connect discovery); nullopt if it is not.
std::optional<base::StatusOr<http::Response>> TokenDocument(std::string_view path,
                                                            std::string_view host,
                                                            const TokenSigner& signer) {
  if (path == "/openid/v1/jwks") {
    auto keys = signer.PublicKeysJson();
    if (!keys.ok()) return keys.status();
    return http::Response{.content_type = "application/jwk-set+json", .body = *std::move(keys)};
  }
  if (path != "/.well-known/openid-configuration") return std::nullopt;
  return http::Response{
      .body = base::json::Dump({{"issuer", std::string(kTokenIssuer)},
                                {"jwks_uri", fmt::format("https://{}/openid/v1/jwks", host)},
                                {"response_types_supported", {"id_token"}},
                                {"subject_types_supported", {"public"}},
                                {"id_token_signing_alg_values_supported", {"ES256"}}})};
}

}  // namespace

RequestRouter::RequestRouter(ApiContext& context, Authenticator& authenticator,
                             Authorizer& authorizer, const TokenSigner& signer)
    : context_(context),
      authenticator_(authenticator),
      authorizer_(authorizer),
      signer_(signer),
      reader_(context),
      writer_(context),
      watches_(context),
      documents_(context),
      pod_streams_(context),
      tokens_(context, signer),
      reviews_(context, authenticator, authorizer) {}

void RequestRouter::Handle(std::shared_ptr<http::Exchange> exchange) {
  // A worker is needed, because checking a token, a role or the store's health reads the store.
  if (!context_.workers.Post(exchange->request(), [this, exchange] { Serve(exchange); })) {
    ReplyError(*exchange, NoWorkerError());
  }
}

void RequestRouter::Serve(const std::shared_ptr<http::Exchange>& exchange) {
  const http::Request& request = exchange->request();
  const bool reads = request.method == "GET" || request.method == "HEAD";
  RunGuarded(*exchange, [&] {
    if (reads && IsPublicPath(request.raw_path())) return documents_.AnswerRequest(*exchange);
    ServeUser(exchange);
  });
}

void RequestRouter::IdentifySender(http::Request head, std::function<void(http::Identity)> done) {
  const bool reads = head.method == "GET" || head.method == "HEAD";
  if (reads && IsPublicPath(head.raw_path())) return done({});
  const bool posted = context_.workers.Post(head, [this, head, done] {
    http::Identity identity;
    try {
      auto user = AdmitSender(head);
      if (user.ok()) {
        identity.user = *std::move(user);
      } else {
        identity.answer = ToResponse(user.status());
      }
    } catch (const std::exception& error) {
      LOG_ERROR("api: {} {}: cannot identify the sender: {}", head.method,
                base::Quote(head.raw_path()), error.what());
      identity.refusal = {.code = 500,
                          .message = "the request failed because of an error in the server"};
    }
    done(std::move(identity));
  });
  if (!posted) done({.answer = ToResponse(NoWorkerError())});
}

base::StatusOr<std::shared_ptr<const http::User>> RequestRouter::AdmitSender(
    const http::Request& head) {
  ASSIGN_OR_RETURN(std::shared_ptr<const http::User> sender, authenticator_.Identify(head));
  ASSIGN_OR_RETURN(const Actor actor, FindActor(head, sender));
  if (Documents::MayServe(head.raw_path())) {
    RETURN_IF_ERROR(AuthorizeDocument(head, actor));
    return sender;
  }
  const auto routed = RouteRequest(head, *context_.kinds.Current());
  if (!routed.ok()) return sender;  // ServeUser says so
  RETURN_IF_ERROR(authorizer_.Authorize(*actor.user, actor.role, AttributesOf(*routed)));
  return sender;
}

base::StatusOr<RequestRouter::Actor> RequestRouter::FindActor(
    const http::Request& request, std::shared_ptr<const http::User> sender) {
  Role role = authorizer_.RoleOf(*sender);
  ASSIGN_OR_RETURN(auto impersonated, FindImpersonatedUser(request, *sender, role));
  if (impersonated == nullptr) return Actor{std::move(sender), std::move(role)};
  LOG_DEBUG("api: {} acts as {}", base::Quote(sender->name), base::Quote(impersonated->name));
  role = authorizer_.RoleOf(*impersonated);
  return Actor{std::move(impersonated), std::move(role)};
}

Status RequestRouter::AuthorizeDocument(const http::Request& request, const Actor& actor) {
  // The verb of a path that is no resource is the method in lower case.
  return authorizer_.Authorize(
      *actor.user, actor.role,
      {.verb = api::LowerCase(request.method), .path = std::string(request.raw_path())});
}

void RequestRouter::ServeUser(const std::shared_ptr<http::Exchange>& exchange) {
  const http::Request& request = exchange->request();
  auto sender = authenticator_.Identify(request);
  if (!sender.ok()) return ReplyError(*exchange, sender.status());
  auto actor = FindActor(request, *std::move(sender));
  if (!actor.ok()) return ReplyError(*exchange, actor.status());
  exchange->SetUser(actor->user);
  const http::User& user = *actor->user;
  LOG_DEBUG("api: {} {} by {}", request.method, base::Quote(request.raw_path()),
            base::Quote(user.name));
  if (Documents::MayServe(request.raw_path())) {
    const Status allowed = AuthorizeDocument(request, *actor);
    return allowed.ok() ? AnswerDocument(*exchange) : ReplyError(*exchange, allowed);
  }
  auto routed = RouteRequest(request, *context_.kinds.Current());
  if (!routed.ok()) return ReplyError(*exchange, routed.status());
  AccessAttributes asked = AttributesOf(*routed);
  const Status allowed = authorizer_.Authorize(user, actor->role, asked);
  if (!allowed.ok()) return ReplyError(*exchange, allowed);
  if (routed->verb == "patch" && IsApply(request)) {
    asked.verb = "create";
    routed->may_create = authorizer_.Decide(user, actor->role, asked).allowed;
  }
  routed->role = std::move(actor->role);
  routed->exchange = exchange;
  HandleResource(*routed);
}

void RequestRouter::AnswerDocument(http::Exchange& exchange) {
  const http::Request& request = exchange.request();
  auto keys = request.method == "GET"
                  ? TokenDocument(request.raw_path(), request.Header("Host"), signer_)
                  : std::nullopt;
  if (!keys) return documents_.AnswerRequest(exchange);
  return keys->ok() ? exchange.Reply(**keys) : ReplyError(exchange, keys->status());
}

void RequestRouter::HandleResource(const ResourceRequest& request) {
  if (const std::string& warning = request.rules->deprecation; !warning.empty()) {
    request.exchange->AddWarning(warning);
  }
  if (!request.subresource.empty()) return HandleSubresource(request);
  const std::string& verb = request.verb;
  if (request.info().review) {
    return verb == "create" ? reviews_.AnswerReview(request)
                            : ReplyError(*request.exchange, WrongMethodError());
  }
  if (verb == "get") return reader_.Get(request);
  if (verb == "list") return reader_.List(request);
  if (verb == "watch") return watches_.StartWatch(request);
  if (verb == "create") return writer_.Create(request);
  if (verb == "update") return writer_.Update(request);
  if (verb == "patch") return writer_.Patch(request);
  if (verb == "delete") return writer_.Delete(request);
  if (verb == "deletecollection") return writer_.DeleteCollection(request);
  ReplyError(*request.exchange, WrongMethodError());
}

void RequestRouter::HandleSubresource(const ResourceRequest& request) {
  const api::KindInfo* info = request.rules->info;
  const std::string& sub = request.subresource;
  const std::string& verb = request.verb;
  const bool ephemeral = info == &api::kinds::kPod && sub == "ephemeralcontainers";
  if ((sub == "status" && info->has_status) || ephemeral) {
    if (verb == "get") return reader_.Get(request);
    if (verb == "update") return writer_.Update(request);
    if (verb == "patch") return writer_.Patch(request);
    return ReplyError(*request.exchange, WrongMethodError());
  }
  if (info == &api::kinds::kPod && sub == "binding") {
    return verb == "create" ? writer_.Bind(request)
                            : ReplyError(*request.exchange, WrongMethodError());
  }
  if (info == &api::kinds::kPod && sub == "eviction") {
    return verb == "create" ? writer_.Evict(request)
                            : ReplyError(*request.exchange, WrongMethodError());
  }
  if (info == &api::kinds::kNamespace && sub == "finalize") {
    return verb == "update" ? writer_.Update(request)
                            : ReplyError(*request.exchange, WrongMethodError());
  }
  if (info == &api::kinds::kPod && PodStreams::Serves(sub)) {
    const bool allowed = verb == "get" || (sub != "log" && verb == "create");
    return allowed ? pod_streams_.StartStream(request)
                   : ReplyError(*request.exchange, WrongMethodError());
  }
  if (info == &api::kinds::kPod && sub == "proxy") {
    return ReplyError(
        *request.exchange,
        KubeError(Reason::kMethodNotAllowed, "pods/proxy is not served here; use port-forward"));
  }
  if (info == &api::kinds::kServiceAccount && sub == "token") {
    return verb == "create" ? tokens_.IssueToken(request)
                            : ReplyError(*request.exchange, WrongMethodError());
  }
  if (sub == "scale" && request.rules->has_scale) {
    return ReplyError(
        *request.exchange,
        KubeError(Reason::kMethodNotAllowed,
                  fmt::format("Berth does not serve the scale subresource of {}: change the "
                              "replicas in the object itself",
                              info->group_resource())));
  }
  ReplyError(*request.exchange, UnknownPathError());
}

}  // namespace berth::apiserver
