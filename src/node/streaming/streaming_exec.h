// Carries a connection on to a runtime's streaming server.
#pragma once

#include <string>

#include "base/status.h"
#include "base/unique_fd.h"
#include "node/streaming/streaming_http.h"

namespace berth::node {

struct StreamUrl {
  std::string host;  // an address, without brackets
  std::string port;
  std::string target;  // path and query
};

// "http://127.0.0.1:4321/exec/TOKEN". UNIMPLEMENTED for https.
base::StatusOr<StreamUrl> ParseStreamUrl(const std::string& url);

// A TCP connection to it, within ten seconds.
base::StatusOr<base::UniqueFd> ConnectStream(const StreamUrl& url);

// The request's head with the stream's target and host.
std::string ForwardedHead(const HttpRequest& request, const StreamUrl& url);

// Carries bytes both ways until both sides have ended, or one broke.
void Splice(int a, int b);

}  // namespace berth::node
