// The way on to a runtime's streaming server.
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

// "http://127.0.0.1:4321/exec/TOKEN". UNIMPLEMENTED for https.
base::StatusOr<StreamUrl> ParseStreamUrl(const std::string& url);

// A TCP connection to it, within ten seconds.
base::StatusOr<base::UniqueFd> ConnectStream(const StreamUrl& url);

// The request as it goes to the stream: with its target and host, and the body that was read.
std::string ForwardedRequest(const http::Request& request, const StreamUrl& url);

}  // namespace berth::node
