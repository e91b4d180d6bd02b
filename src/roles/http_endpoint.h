// Metrics and health over HTTP for whoever watches over the process: probes and scrapers, not
// people. GET and HEAD alone, one request a connection, small heads, deadlines on everything, a few
// requests at a time.
//
//   ":8080", "127.0.0.1:8080", "[::1]:8080", "localhost:8080"; port 0: any
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "base/status.h"
#include "base/unique_fd.h"
#include "base/worker_pool.h"

namespace berth::roles {

class HttpEndpoint {
 public:
  struct Answer {
    int code = 200;
    std::string body;
    std::string content_type = "text/plain; charset=utf-8";
  };
  // May block for a moment; called on several threads.
  using Handler = std::function<Answer()>;

  // INVALID_ARGUMENT for what is no address, UNAVAILABLE with the kernel's reason if it cannot be
  // listened at. `handlers` by path.
  static base::StatusOr<std::unique_ptr<HttpEndpoint>> Listen(
      const std::string& address, std::map<std::string, Handler> handlers);
  // Waits for the answers that are under way.
  ~HttpEndpoint();

  uint16_t port() const { return port_; }

 private:
  HttpEndpoint(base::UniqueFd listener, base::UniqueFd stop, uint16_t port,
               std::map<std::string, Handler> handlers);
  void Accept();
  void Serve(int connection) const;
  Answer AnswerTo(std::string_view head) const;

  const base::UniqueFd listener_;
  const base::UniqueFd stop_;  // an eventfd
  const uint16_t port_;
  const std::map<std::string, Handler> handlers_;
  base::WorkerPool workers_;
  std::jthread thread_;
};

}  // namespace berth::roles
