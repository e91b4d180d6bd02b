#include "node/streaming/streaming_exec.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <strings.h>
#include <sys/socket.h>

#include <array>
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

// One direction: what was read and not yet written, and whether its source has ended.
struct Flow {
  int from, to;
  std::array<char, 32 * 1024> buffer;
  size_t begin = 0, end = 0;
  bool source_ended = false;
  bool done = false;

  bool wants_read() const { return !source_ended && begin == end; }
  bool wants_write() const { return begin < end; }

  // False: it broke.
  bool Read() {
    const ssize_t size = recv(from, buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (size < 0) return errno == EAGAIN || errno == EINTR;
    begin = 0;
    end = static_cast<size_t>(size);
    if (size == 0) source_ended = true;
    return true;
  }
  bool Write() {
    const ssize_t size = send(to, buffer.data() + begin, end - begin, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (size < 0) return errno == EAGAIN || errno == EINTR;
    begin += static_cast<size_t>(size);
    return true;
  }
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
  const std::string what =
      fmt::format("connect to the container runtime's stream at {}:{}", url.host, url.port);
  base::UniqueFd fd(socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return platform::ErrnoError(errno, what);
  if (connect(fd.get(), found->ai_addr, found->ai_addrlen) != 0) {
    if (errno != EINPROGRESS) return platform::ErrnoError(errno, what);
    pollfd item{.fd = fd.get(), .events = POLLOUT, .revents = 0};
    int error = ETIMEDOUT;
    socklen_t size = sizeof(error);
    if (poll(&item, 1, kConnectMs) > 0) getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) return platform::ErrnoError(error, what);
  }
  // Keystrokes go out one by one.
  const int on = 1;
  setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  return fd;
}

std::string ForwardedHead(const HttpRequest& request, const StreamUrl& url) {
  std::string out = fmt::format(
      "{} {} HTTP/1.1\r\nHost: {}:{}\r\n", request.method, url.target,
      url.host.find(':') == std::string::npos ? url.host : "[" + url.host + "]", url.port);
  for (const auto& [name, value] : request.headers) {
    // A caller's credentials are the API server's; a browser's Origin would be refused by the
    // runtime.
    if (strcasecmp(name.c_str(), "Host") == 0 || strcasecmp(name.c_str(), "Authorization") == 0 ||
        strcasecmp(name.c_str(), "Origin") == 0) {
      continue;
    }
    out += fmt::format("{}: {}\r\n", name, value);
  }
  return out + "\r\n";
}

void Splice(int a, int b) {
  auto there = std::make_unique<Flow>(Flow{.from = a, .to = b});
  auto back = std::make_unique<Flow>(Flow{.from = b, .to = a});
  while (!there->done || !back->done) {
    std::array<pollfd, 2> items{
        {{.fd = a, .events = 0, .revents = 0}, {.fd = b, .events = 0, .revents = 0}}};
    for (Flow* flow : {there.get(), back.get()}) {
      pollfd& from = flow->from == a ? items[0] : items[1];
      pollfd& to = flow->to == a ? items[0] : items[1];
      if (flow->wants_read()) from.events |= POLLIN;
      if (flow->wants_write()) to.events |= POLLOUT;
    }
    // A side that nothing is wanted from is left out: its hang-up would wake the poll for ever.
    for (pollfd& item : items) {
      if (item.events == 0) item.fd = -1;
    }
    if (poll(items.data(), items.size(), -1) < 0 && errno != EINTR) return;
    for (Flow* flow : {there.get(), back.get()}) {
      const short from = (flow->from == a ? items[0] : items[1]).revents;
      const short to = (flow->to == a ? items[0] : items[1]).revents;
      if (flow->wants_read() && (from & (POLLIN | POLLHUP | POLLERR)) != 0 && !flow->Read()) return;
      if (flow->wants_write() && (to & (POLLOUT | POLLHUP | POLLERR)) != 0 && !flow->Write())
        return;
      if (flow->source_ended && !flow->wants_write() && !flow->done) {
        flow->done = true;
        shutdown(flow->to, SHUT_WR);
      }
    }
    // The runtime has said all it will: what the client may still send has no reader.
    if (back->done) return;
  }
}

}  // namespace berth::node
