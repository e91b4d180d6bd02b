// Connects to a container runtime's streaming server and prepares requests for it.
#pragma once

#include <string>

#include "base/status.h"
#include "base/unique_fd.h"
#include "http/message.h"

namespace berth::node {

struct StreamUrl {
  std::string host;  // an address, without brackets
  std::string port;
  std::string target;  // path and query
};

// Parses a URL such as "http://127.0.0.1:4321/exec/TOKEN". UNIMPLEMENTED: it is not http; INTERNAL:
// it has no host, port or path.
base::StatusOr<StreamUrl> ParseStreamUrl(const std::string& url);

// Opens a non-blocking TCP socket and connects it to the URL's server within ten seconds.
// UNAVAILABLE: the host is not found; other errors are those of connect(2).
base::StatusOr<base::UniqueFd> ConnectStream(const StreamUrl& url);

// The text of the HTTP/1.1 request that is sent to the stream: with the URL's target and host, with
// the body, and without the headers that are only for the API server.
std::string MakeForwardedRequest(const http::Request& request, const StreamUrl& url);

}  // namespace berth::node
