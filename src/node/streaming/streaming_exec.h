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

// "http://127.0.0.1:4321/exec/TOKEN". UNIMPLEMENTED for https.
base::StatusOr<StreamUrl> ParseStreamUrl(const std::string& url);

// Opens a TCP connection to the URL's server, within ten seconds.
base::StatusOr<base::UniqueFd> ConnectStream(const StreamUrl& url);

// The request in the form that is sent to the stream: with the URL's target and host, and with the
// body that was read.
std::string ForwardedRequest(const http::Request& request, const StreamUrl& url);

}  // namespace berth::node
