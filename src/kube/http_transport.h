// HTTP requests and streams to one server, over libcurl with kept-alive connections.
//
// Each idle handle holds one connection. The most recently used one is taken first, and those
// unused for a minute are closed when others are returned, so that the connections of a burst do
// not stay. Thread-safe.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "kube/config.h"
#include "kube/http_client.h"
#include "kube/pace.h"

namespace berth::kube {

struct HttpRequest {
  std::string method;        // "GET"
  std::string target;        // path and query, percent-encoded
  std::string content_type;  // empty: no body
  std::string body;
  std::string accept = "application/json";

  std::string what() const;  // "GET /api/v1/pods", without the query
};

struct HttpAnswer {
  long code = 0;
  std::string body;
  std::optional<std::chrono::seconds> retry_after;
};

class HttpTransport {
 public:
  using Time = std::chrono::steady_clock::time_point;

  static base::StatusOr<std::unique_ptr<HttpTransport>> New(const Config& config,
                                                            const HttpClientOptions& options);
  ~HttpTransport();

  // Makes one request and returns the answer, whatever its code. UNAVAILABLE without an answer,
  // DEADLINE_EXCEEDED without one by `deadline`, RESOURCE_EXHAUSTED for a body beyond the limit.
  base::StatusOr<HttpAnswer> Perform(const HttpRequest& request, Time deadline);

  // Gets a stream: `consume` takes what it can from the front of the received bytes and leaves the
  // rest. If it returns false the stream ends (OK), as it does when the server ends it. Any code
  // but 200 is an error. CANCELLED once `stop` is requested.
  using Consume = std::function<base::StatusOr<bool>(std::string& received)>;
  base::Status Stream(const HttpRequest& request, std::stop_token stop, Time deadline,
                      const Consume& consume);

  const HttpClientOptions& options() const { return options_; }

 private:
  class Handle;
  struct Idle {
    std::unique_ptr<Handle> handle;
    Time since;
  };

  HttpTransport(const Config& config, const HttpClientOptions& options);

  // Returns an idle handle or a new one, once fewer than max_in_flight are in use.
  base::StatusOr<std::unique_ptr<Handle>> Acquire(Time deadline);
  void Release(std::unique_ptr<Handle> handle);
  // The bearer token; empty if there is none. It is read again from its file each minute.
  std::string Token();

  const Config config_;
  const HttpClientOptions options_;
  const std::string where_;  // the server, for error messages
  Pace pace_;

  base::Mutex mutex_;
  base::CondVar released_;
  int in_flight_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<Idle> idle_ ABSL_GUARDED_BY(mutex_);  // the most recently used last
  std::string token_ ABSL_GUARDED_BY(mutex_);
  Time token_read_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace berth::kube
