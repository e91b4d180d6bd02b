// The Client that speaks HTTP, by libcurl: to a kube-apiserver over TLS, or to Berth's over TLS or
// its UNIX socket.
//
// Connections are kept alive and reused. If the server closed one before a request on it was
// answered, the request is sent again on a new connection. In rare cases a write is therefore done
// twice. Then the second attempt meets the effect of the first (ALREADY_EXISTS, ABORTED,
// NOT_FOUND), as with any unknown outcome. A request that is answered by 429 with Retry-After was
// not begun, so it is sent again within the time-out. A read that is answered by 503 with
// Retry-After is sent again, too.
//
// The process must ignore SIGPIPE. Thread-safe.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "kube/client.h"
#include "kube/config.h"

namespace berth::kube {

// The format of the objects of built-in kinds. Custom resources and patches are always JSON.
enum class ObjectFormat {
  kByServer,  // JSON over a UNIX socket, where the server is Berth's own, and else protobuf
  kJson,
  kProtobuf,  // for kinds whose objects have all their fields in protobuf (object_format.h)
};

struct HttpClientOptions {
  std::string user_agent = "berth";  // a kube-apiserver makes the name of the field manager from it
  // The most time that a request may take, with its retries. It does not apply to watches.
  std::chrono::milliseconds request_timeout{30000};
  // The most requests that run at the same time. Others wait, within their time-out. Watches do not
  // count.
  int max_in_flight = 64;
  // The most requests per second, once `burst` requests were sent at once. Watches do not count.
  // 0: no limit.
  double queries_per_second = 0;
  int burst = 0;
  size_t max_body_bytes = 64 * 1024 * 1024;  // the largest answer
  size_t max_event_bytes = 8 * 1024 * 1024;  // one event of a watch
  ObjectFormat format = ObjectFormat::kByServer;
  // Lets the server compress large answers. Compressing an answer takes the server longer than
  // making it, so this is only for clients behind a slow network.
  bool compress = false;
};

// INVALID_ARGUMENT: the configuration names no server. INTERNAL: libcurl cannot be initialized. A
// server that does not answer is not an error here. The client must outlive the calls on it.
StatusOr<std::unique_ptr<Client>> NewHttpClient(const Config& config,
                                                const HttpClientOptions& options = {});

}  // namespace berth::kube
