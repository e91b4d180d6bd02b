// The Client that speaks HTTP, by libcurl: to a kube-apiserver over TLS, or to Berth's over TLS or
// its UNIX socket.
//
// Connections are kept alive and reused. If the server closed one before a request on it was
// answered, the request is sent again on a new connection. A write may therefore, in rare cases, be
// done twice: as with any unknown outcome, the second attempt then meets the effect of the first
// (ALREADY_EXISTS, ABORTED, NOT_FOUND). A request that is answered by 429 with Retry-After was not
// begun, and is tried again within the time-out; so is a read that is answered by 503.
//
// The process must ignore SIGPIPE. Thread-safe.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "kube/client.h"
#include "kube/config.h"

namespace berth::kube {

struct HttpClientOptions {
  std::string user_agent = "berth";  // also the field manager's name on a real server
  std::chrono::milliseconds request_timeout{
      30000};              // of a request with its retries; not of watches
  int max_in_flight = 64;  // further requests wait within their time-out; watches do not count
  // Limits the requests per second, after a burst; watches do not count. 0: no limit.
  double queries_per_second = 0;
  int burst = 0;
  size_t max_body_bytes = 64 * 1024 * 1024;
  size_t max_event_bytes = 8 * 1024 * 1024;  // one line of a watch
};

// INVALID_ARGUMENT for a configuration that names no server. A server that does not answer is not
// an error yet. The client must outlive the calls on it.
StatusOr<std::unique_ptr<Client>> NewHttpClient(const Config& config,
                                                const HttpClientOptions& options = {});

}  // namespace berth::kube
