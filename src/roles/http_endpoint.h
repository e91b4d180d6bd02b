// Serves metrics and health over HTTP to probes and scrapers, not to people: only GET and HEAD, one
// request per connection, small heads, deadlines for everything, and few requests at a time.
//
//   ":8080", "127.0.0.1:8080", "[::1]:8080", "localhost:8080"; port 0: any
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/status.h"
#include "base/worker_pool.h"
#include "http/server.h"
#include "http/service.h"

namespace berth::roles {

class HttpEndpoint : private http::Service {
 public:
  struct Answer {
    int code = 200;
    std::string body;
    std::string content_type = "text/plain; charset=utf-8";
  };
  // A handler may block for a moment. It is called on several threads.
  using Handler = std::function<Answer()>;

  // INVALID_ARGUMENT for what is no address, UNAVAILABLE with the kernel's reason if it cannot be
  // listened at. `handlers` by path.
  static base::StatusOr<std::unique_ptr<HttpEndpoint>> Listen(
      const std::string& address, std::map<std::string, Handler> handlers);
  // Waits for the answers that are under way.
  ~HttpEndpoint() override;

  uint16_t port() const { return http_->port(); }

 private:
  explicit HttpEndpoint(std::map<std::string, Handler> handlers);

  // http::Service: on the event loop.
  std::shared_ptr<const http::User> FindProcessUser(uid_t) const override { return nullptr; }
  std::optional<http::Refusal> CheckHead(const http::RequestHead& head,
                                         const http::User* user) const override;
  std::optional<http::Response> RenderRefusal(const http::Refusal& refusal) const override;
  void Handle(std::shared_ptr<http::Exchange> exchange) override;

  const std::map<std::string, Handler> handlers_;
  std::unique_ptr<http::Server> http_;
  base::WorkerPool workers_;  // ends before the server that its answers go to
};

}  // namespace berth::roles
