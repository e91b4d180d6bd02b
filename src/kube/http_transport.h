// Makes HTTP requests and reads HTTP streams of one server, with libcurl and kept-alive
// connections.
//
// Each idle handle holds one connection. The handle that was used last is used first. A handle that
// was unused for two seconds is closed when another handle is released or a stream brings
// something, so that the connections of a burst do not stay. Thread-safe.
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
  size_t max_answer_bytes = SIZE_MAX;  // if that is less than HttpClientOptions::max_body_bytes

  std::string ToText() const;  // "GET /api/v1/pods", without the query
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

  // Makes one request and returns the answer, whatever its code. UNAVAILABLE: there was no answer.
  // DEADLINE_EXCEEDED: there was none before `deadline`, or it was too late to send the request.
  // RESOURCE_EXHAUSTED: the body exceeds the request's limit or the options'. If this thread's
  // SendGuard refuses, its error is returned, and nothing is sent.
  base::StatusOr<HttpAnswer> PerformRequest(const HttpRequest& request, Time deadline);

  // Reads a stream. `consume` is called with the received bytes, removes those that it can use from
  // the front, and leaves the rest. Returns OK when `consume` returns false or the server ends the
  // stream. Any HTTP code but 200 is an error. CANCELLED: `stop` was requested. DEADLINE_EXCEEDED:
  // no answer came within the time-out of requests, or the stream did not end before `deadline`.
  using Consume = std::function<base::StatusOr<bool>(std::string& received)>;
  base::Status StreamResponse(const HttpRequest& request, std::stop_token stop, Time deadline,
                              const Consume& consume);

  const HttpClientOptions& options() const { return options_; }

 private:
  class Handle;
  struct Idle {
    std::unique_ptr<Handle> handle;
    Time since;
  };

  HttpTransport(const Config& config, const HttpClientOptions& options);

  // Waits until fewer than max_in_flight handles are in use, and returns an idle handle or a new
  // one. DEADLINE_EXCEEDED: that took longer than until `deadline`.
  base::StatusOr<std::unique_ptr<Handle>> AcquireHandle(Time deadline);
  void ReleaseHandle(std::unique_ptr<Handle> handle);
  // Closes the handles that were unused for too long. Returns whether no idle one is left.
  bool CloseUnused();
  // Returns the bearer token; empty if there is none. Reads it again from its file each minute.
  std::string FindToken();

  const Config config_;
  const HttpClientOptions options_;
  const std::string server_;  // its address, for error messages
  Pace pace_;

  base::Mutex mutex_;
  base::CondVar released_;
  int in_flight_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<Idle> idle_ ABSL_GUARDED_BY(mutex_);  // the most recently used last
  std::string token_ ABSL_GUARDED_BY(mutex_);
  Time token_read_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace berth::kube
