// How a Client's requests reach the API server: over a connection (http_transport.h), or by a call
// within the process (apiserver/local_transport.h). Thread-safe.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>

#include "base/status.h"
#include "kube/http/http_client.h"

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

class Transport {
 public:
  using Time = std::chrono::steady_clock::time_point;
  virtual ~Transport() = default;

  // Makes one request and returns the answer, whatever its code. UNAVAILABLE: there was no answer.
  // DEADLINE_EXCEEDED: there was none before `deadline`, or it was too late to send the request.
  // RESOURCE_EXHAUSTED: the body exceeds the request's limit or the options'. If this thread's
  // SendGuard refuses, its error is returned, and nothing is sent.
  virtual base::StatusOr<HttpAnswer> PerformRequest(const HttpRequest& request, Time deadline) = 0;

  // Reads a stream. `consume` is called with the received bytes, removes those that it can use from
  // the front, and leaves the rest. Returns OK when `consume` returns false or the server ends the
  // stream. Any HTTP code but 200 is an error. CANCELLED: `stop` was requested. DEADLINE_EXCEEDED:
  // no answer came within the time-out of requests, or the stream did not end before `deadline`.
  using Consume = std::function<base::StatusOr<bool>(std::string& received)>;
  virtual base::Status StreamResponse(const HttpRequest& request, std::stop_token stop,
                                      Time deadline, const Consume& consume) = 0;

  virtual const HttpClientOptions& options() const = 0;
};

// The Client that speaks JSON over `transport`.
std::unique_ptr<Client> NewClientOver(std::unique_ptr<Transport> transport);

}  // namespace berth::kube
