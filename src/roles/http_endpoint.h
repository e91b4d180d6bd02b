// Serves metrics and health over HTTP to probes and scrapers, not to people: only GET and HEAD, one
// request per connection, small heads, deadlines for everything, and few requests at a time. All
// who ask for a path before its handler begins get the answer of one run, so that many requests
// cost no more than two runs.
//
// Addresses: ":8080", "127.0.0.1:8080", "[::1]:8080", "localhost:8080". With port 0 the kernel
// chooses a free port.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "base/workers/worker_pool.h"
#include "http/service.h"

namespace berth::http {
class Server;  // declared alone, because its header includes Boost.Asio
}

namespace berth::roles {

class HttpEndpoint : private http::Service {
 public:
  struct Answer {
    int code = 200;
    std::string body;
    std::string content_type = "text/plain; charset=utf-8";
  };
  // Handlers of different paths run at the same time. They may block for a short time.
  using Handler = std::function<Answer()>;

  // `handlers` has the handler of each path, such as "/metrics". INVALID_ARGUMENT: `address` has
  // another shape, or its host cannot be resolved. UNAVAILABLE: the kernel refuses to listen there;
  // the message has the reason.
  static base::StatusOr<std::unique_ptr<HttpEndpoint>> Listen(
      const std::string& address, std::map<std::string, Handler> handlers);
  // Waits for the handlers that run, and at most 5 s until their answers are sent.
  ~HttpEndpoint() override;

  uint16_t port() const;

 private:
  explicit HttpEndpoint(std::map<std::string, Handler> handlers);

  // http::Service: on the event loop.
  std::shared_ptr<const http::User> FindProcessUser(uid_t) const override { return nullptr; }
  std::optional<http::Refusal> CheckHead(const http::RequestHead& head,
                                         const http::User* user) const override;
  std::optional<http::Response> RenderRefusal(const http::Refusal& refusal) const override;
  void Handle(std::shared_ptr<http::Exchange> exchange) override;

  struct Path {
    Handler handler;
    base::Mutex mutex;
    bool running ABSL_GUARDED_BY(mutex) = false;
    std::vector<std::shared_ptr<http::Exchange>> waiting ABSL_GUARDED_BY(mutex);
  };
  // Runs the handler until nobody waits. Runs on a worker.
  static void AnswerWaiting(Path& path);
  // Answers all who wait with 503, because no worker can run the handler.
  static void RefuseWaiting(Path& path);

  std::map<std::string, Path> paths_;
  std::unique_ptr<http::Server> http_;
  base::WorkerPool workers_;  // ends before the server that its answers go to
};

}  // namespace berth::roles
