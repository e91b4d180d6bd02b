#include "node/streaming/streaming_exec.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <memory>

#include "platform/errno.h"

namespace berth::node {

namespace {

using base::StatusCode;
using base::StatusOr;

constexpr int kConnectMs = 10'000;

struct AddressDeleter {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};

}  // namespace

StatusOr<StreamUrl> ParseStreamUrl(const std::string& url) {
  constexpr std::string_view kHttp = "http://";
  if (!url.starts_with(kHttp)) {
    return base::Error(StatusCode::kUnimplemented,
                       "the container runtime's stream '{}' is not plain HTTP",
                       url.substr(0, url.find("://")));
  }
  const std::string_view rest = std::string_view(url).substr(kHttp.size());
  const size_t slash = rest.find('/');
  const std::string_view authority = rest.substr(0, slash);
  const size_t colon = authority.rfind(':');
  if (slash == std::string_view::npos || colon == std::string_view::npos ||
      colon + 1 == authority.size()) {
    return base::Error(StatusCode::kInternal,
                       "the container runtime's stream has no host, port and path");
  }
  StreamUrl out{.host = std::string(authority.substr(0, colon)),
                .port = std::string(authority.substr(colon + 1)),
                .target = std::string(rest.substr(slash))};
  if (out.host.starts_with('[') && out.host.ends_with(']'))
    out.host = out.host.substr(1, out.host.size() - 2);
  return out;
}

StatusOr<base::UniqueFd> ConnectStream(const StreamUrl& url) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(url.host.c_str(), url.port.c_str(), &hints, &found);
      error != 0) {
    return base::Error(StatusCode::kUnavailable, "find the container runtime's stream at '{}': {}",
                       url.host, gai_strerror(error));
  }
  const std::unique_ptr<addrinfo, AddressDeleter> list(found);
  const std::string context =
      fmt::format("connect to the container runtime's stream at {}:{}", url.host, url.port);
  base::UniqueFd fd(socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return platform::ErrnoError(errno, context);
  if (connect(fd.get(), found->ai_addr, found->ai_addrlen) != 0) {
    if (errno != EINPROGRESS) return platform::ErrnoError(errno, context);
    pollfd item{.fd = fd.get(), .events = POLLOUT, .revents = 0};
    int error = ETIMEDOUT;
    socklen_t size = sizeof(error);
    if (poll(&item, 1, kConnectMs) > 0) getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) return platform::ErrnoError(error, context);
  }
  // Each keystroke is sent at once.
  const int on = 1;
  setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  return fd;
}

std::string MakeForwardedRequest(const http::Request& request, const StreamUrl& url) {
  // The caller's credentials and name are for the API server and this agent only. The runtime would
  // refuse a browser's Origin. The body has been read already, so Content-Length is set again.
  constexpr std::string_view kDropped[] = {"Host",           "Authorization",     "Origin",
                                           "Content-Length", "Transfer-Encoding", "Expect",
                                           "X-Remote-User",  "X-Remote-Group"};
  std::string out = fmt::format(
      "{} {} HTTP/1.1\r\nHost: {}:{}\r\n", request.method, url.target,
      url.host.find(':') == std::string::npos ? url.host : "[" + url.host + "]", url.port);
  for (const auto& [name, value] : request.headers) {
    const bool dropped = std::any_of(std::begin(kDropped), std::end(kDropped),
                                     [&](auto one) { return http::EqualsIgnoreCase(one, name); });
    if (!dropped) out += fmt::format("{}: {}\r\n", name, value);
  }
  if (!request.body.empty() || !request.Header("Content-Length").empty()) {
    out += fmt::format("Content-Length: {}\r\n", request.body.size());
  }
  return out + "\r\n" + request.body;
}

}  // namespace berth::node
