// The Client that speaks HTTP, by libcurl: to a kube-apiserver over TLS, or to Berth's over TLS or
// its UNIX socket.
//
// Connections are kept alive and reused; one that a request finds closed by the server is opened
// anew and the request sent again only if the server had answered nothing on it, which for a write
// means that it may in rare cases be done twice: as with any unknown outcome, the second one then
// meets its own first effect (ALREADY_EXISTS, ABORTED, NOT_FOUND). Reads that are answered by 429
// or 503 with Retry-After are tried again within the time-out; writes are not.
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
  int max_in_flight = 64;  // requests beyond wait, within their time-out; watches do not count
  size_t max_body_bytes = 64 * 1024 * 1024;
  size_t max_event_bytes = 8 * 1024 * 1024;  // one line of a watch
};

// INVALID_ARGUMENT for a configuration that names no server; a server that is not there is no error
// yet. The client must outlive the calls on it.
StatusOr<std::unique_ptr<Client>> NewHttpClient(const Config& config,
                                                const HttpClientOptions& options = {});

}  // namespace berth::kube
