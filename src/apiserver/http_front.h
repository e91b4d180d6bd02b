// Connects the HTTP server to the API: identifies callers, renders errors and passes requests on.
#pragma once

#include <functional>

#include "http/service.h"

namespace berth::apiserver {

// On the UNIX socket, processes of root and of the server's own user are accepted as
// administrators. On TLS, a client certificate may identify the user (tls.h), and otherwise a
// token. The identifier judges both, and the right to the request, before the request's body is
// read. Errors are rendered as Kubernetes' Status objects.
class HttpFront : public http::Service {
 public:
  using Handler = std::function<void(std::shared_ptr<http::Exchange>)>;
  // As http::Service::Identify.
  using Identifier = std::function<void(http::Request, std::function<void(http::Identity)>)>;
  HttpFront(Handler handler, Identifier identifier)
      : handler_(std::move(handler)), identifier_(std::move(identifier)) {}

  std::shared_ptr<const http::User> FindProcessUser(uid_t uid) const override;
  std::shared_ptr<const http::User> FindCertificateUser(SSL* ssl) const override;
  std::optional<http::Refusal> CheckHead(const http::RequestHead& head,
                                         const http::User* user) const override;
  void Identify(http::Request head, std::function<void(http::Identity)> done) override {
    identifier_(std::move(head), std::move(done));
  }
  std::optional<http::Response> RenderRefusal(const http::Refusal& refusal) const override;
  void Handle(std::shared_ptr<http::Exchange> exchange) override { handler_(std::move(exchange)); }

 private:
  const Handler handler_;
  const Identifier identifier_;
};

}  // namespace berth::apiserver
