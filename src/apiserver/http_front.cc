#include "apiserver/http_front.h"

#include <unistd.h>

#include "apiserver/access/authentication.h"
#include "apiserver/access/tls.h"
#include "apiserver/formats/kube_status.h"

namespace berth::apiserver {

namespace {

Reason ReasonOfRefusal(int code) {
  switch (code) {
    case 401:
      return Reason::kUnauthorized;
    case 413:
      return Reason::kRequestEntityTooLarge;
    case 429:
      return Reason::kTooManyRequests;
    case 500:
      return Reason::kInternalError;
    case 503:
      return Reason::kServiceUnavailable;
    default:
      return Reason::kBadRequest;
  }
}

}  // namespace

std::shared_ptr<const http::User> HttpFront::FindProcessUser(uid_t uid) const {
  if (uid != 0 && uid != geteuid()) return nullptr;
  static const auto root =
      std::make_shared<const http::User>(http::User{.name = "root", .groups = {"system:masters"}});
  return root;
}

std::shared_ptr<const http::User> HttpFront::FindCertificateUser(SSL* ssl) const {
  return PeerUser(ssl);  // null: a token may still identify the user
}

std::optional<http::Refusal> HttpFront::CheckHead(const http::RequestHead& head,
                                                  const http::User* user) const {
  if (user != nullptr || head.has_credentials || IsPublicPath(head.path)) return std::nullopt;
  return http::Refusal{.code = 401, .message = std::string(base::Message(UnauthorizedError()))};
}

std::optional<http::Response> HttpFront::RenderRefusal(const http::Refusal& refusal) const {
  // Some HTTP status codes have no reason in Kubernetes. Then only the response's head has the
  // exact code.
  const base::Status status = KubeError(ReasonOfRefusal(refusal.code), refusal.message);
  return http::Response{.code = refusal.code, .body = base::json::Dump(StatusObject(status))};
}

}  // namespace berth::apiserver
