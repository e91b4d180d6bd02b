#include "roles/http_endpoint.h"

#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>

#include "base/log.h"

namespace berth::roles {

using base::Error;
using base::StatusCode;
using base::StatusOr;
using base::UniqueFd;
using std::chrono::milliseconds;

namespace {

using Time = std::chrono::steady_clock::time_point;

constexpr size_t kMaxHead = 8 * 1024;
constexpr milliseconds kMaxTime{5000};  // for a request to come, and for its answer to go

struct HostAndPort {
  std::string host;  // empty: all addresses
  std::string port;
};

std::optional<HostAndPort> Split(std::string_view address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  std::string_view host = address.substr(0, colon);
  const std::string_view port = address.substr(colon + 1);
  if (port.empty() || port.size() > 5 || port.find_first_not_of("0123456789") != port.npos) {
    return std::nullopt;
  }
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != host.npos) {
    return std::nullopt;  // an IPv6 address without its brackets
  }
  return HostAndPort{std::string(host), std::string(port)};
}

StatusOr<UniqueFd> ListenOn(const addrinfo& where) {
  UniqueFd fd(socket(where.ai_family, where.ai_socktype | SOCK_CLOEXEC, where.ai_protocol));
  if (!fd.valid()) return Error(StatusCode::kUnavailable, "socket: {}", std::strerror(errno));
  const int on = 1;
  const int off = 0;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  // All addresses means those of IPv4 as well, as in Go.
  if (where.ai_family == AF_INET6) {
    setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  }
  if (bind(fd.get(), where.ai_addr, where.ai_addrlen) != 0 || listen(fd.get(), 64) != 0) {
    return Error(StatusCode::kUnavailable, "listen: {}", std::strerror(errno));
  }
  return fd;
}

StatusOr<UniqueFd> ListenAt(const std::string& address) {
  const auto parts = Split(address);
  if (!parts.has_value()) {
    return Error(StatusCode::kInvalidArgument, "{} is no address to listen at, such as ':8080'",
                 base::Quote(address));
  }
  addrinfo hints{};
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  // Without a host: the IPv6 wildcard, and the IPv4 one where the kernel has no IPv6.
  hints.ai_family = parts->host.empty() ? AF_INET6 : AF_UNSPEC;
  const char* host = parts->host.empty() ? nullptr : parts->host.c_str();
  if (const int code = getaddrinfo(host, parts->port.c_str(), &hints, &found); code != 0) {
    return Error(StatusCode::kInvalidArgument, "address {}: {}", base::Quote(address),
                 gai_strerror(code));
  }
  StatusOr<UniqueFd> fd = ListenOn(*found);
  freeaddrinfo(found);
  if (!fd.ok() && parts->host.empty()) {
    hints.ai_family = AF_INET;
    if (getaddrinfo(nullptr, parts->port.c_str(), &hints, &found) == 0) {
      fd = ListenOn(*found);
      freeaddrinfo(found);
    }
  }
  if (!fd.ok()) return base::Annotate(fd.status(), fmt::format("address '{}'", address));
  return fd;
}

uint16_t PortOf(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  return address.ss_family == AF_INET6 ? ntohs(reinterpret_cast<sockaddr_in6&>(address).sin6_port)
                                       : ntohs(reinterpret_cast<sockaddr_in&>(address).sin_port);
}

bool WaitUntil(int fd, short events, Time deadline) {
  const auto left = std::chrono::ceil<milliseconds>(deadline - std::chrono::steady_clock::now());
  pollfd polled{.fd = fd, .events = events, .revents = 0};
  return left.count() > 0 && poll(&polled, 1, static_cast<int>(left.count())) > 0;
}

// The request's line and headers; nullopt if they do not come, or not in time.
std::optional<std::string> ReadHead(int fd) {
  const Time deadline = std::chrono::steady_clock::now() + kMaxTime;
  std::string head;
  char buffer[1024];
  while (head.size() < kMaxHead) {
    if (!WaitUntil(fd, POLLIN, deadline)) return std::nullopt;
    const ssize_t count = recv(fd, buffer, sizeof buffer, MSG_DONTWAIT);
    if (count <= 0) return std::nullopt;
    head.append(buffer, static_cast<size_t>(count));
    if (head.find("\r\n\r\n") != head.npos || head.find("\n\n") != head.npos) return head;
  }
  return std::nullopt;
}

void SendAll(int fd, std::string_view data) {
  const Time deadline = std::chrono::steady_clock::now() + kMaxTime;
  while (!data.empty() && WaitUntil(fd, POLLOUT, deadline)) {
    const ssize_t count = send(fd, data.data(), data.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (count < 0) return;
    data.remove_prefix(static_cast<size_t>(count));
  }
}

std::string_view Reason(int code) {
  switch (code) {
    case 200:
      return "OK";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 400:
      return "Bad Request";
    case 503:
      return "Service Unavailable";
    default:
      return "Internal Server Error";
  }
}

}  // namespace

StatusOr<std::unique_ptr<HttpEndpoint>> HttpEndpoint::Listen(
    const std::string& address, std::map<std::string, Handler> handlers) {
  ASSIGN_OR_RETURN(UniqueFd listener, ListenAt(address));
  UniqueFd stop(eventfd(0, EFD_CLOEXEC));
  if (!stop.valid()) return Error(StatusCode::kUnavailable, "eventfd: {}", std::strerror(errno));
  const uint16_t port = PortOf(listener.get());
  return std::unique_ptr<HttpEndpoint>(
      new HttpEndpoint(std::move(listener), std::move(stop), port, std::move(handlers)));
}

HttpEndpoint::HttpEndpoint(UniqueFd listener, UniqueFd stop, uint16_t port,
                           std::map<std::string, Handler> handlers)
    : listener_(std::move(listener)),
      stop_(std::move(stop)),
      port_(port),
      handlers_(std::move(handlers)),
      workers_({.name = "http", .max_threads = 4, .max_queued = 64}),
      thread_([this] { Accept(); }) {}

HttpEndpoint::~HttpEndpoint() {
  eventfd_write(stop_.get(), 1);
  thread_.join();
}

void HttpEndpoint::Accept() {
  pthread_setname_np(pthread_self(), "http-accept");
  while (true) {
    pollfd polled[] = {{.fd = listener_.get(), .events = POLLIN, .revents = 0},
                       {.fd = stop_.get(), .events = POLLIN, .revents = 0}};
    if (poll(polled, 2, -1) < 0) continue;
    if (polled[1].revents != 0) return;
    // shared_ptr: a task is copied, and one that is not taken closes the connection.
    const auto connection =
        std::make_shared<UniqueFd>(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!connection->valid()) {
      // Out of descriptors: the listener stays readable, so that a pause keeps this from spinning.
      if (errno == EMFILE || errno == ENFILE) poll(&polled[1], 1, 100);
      continue;
    }
    workers_.Post([this, connection] { Serve(connection->get()); });
  }
}

void HttpEndpoint::Serve(int connection) const {
  const std::optional<std::string> head = ReadHead(connection);
  if (!head.has_value()) return;
  const Answer answer = AnswerTo(*head);
  std::string reply = fmt::format(
      "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nX-Content-Type-Options: "
      "nosniff\r\nConnection: close\r\n\r\n",
      answer.code, Reason(answer.code), answer.content_type, answer.body.size());
  if (!head->starts_with("HEAD ")) reply += answer.body;
  SendAll(connection, reply);
  shutdown(connection, SHUT_WR);
}

HttpEndpoint::Answer HttpEndpoint::AnswerTo(std::string_view head) const {
  const std::string_view line = head.substr(0, head.find_first_of("\r\n"));
  const size_t method_end = line.find(' ');
  const size_t target_end = line.rfind(" HTTP/1.");
  if (method_end == line.npos || target_end == line.npos || target_end <= method_end) {
    return {.code = 400, .body = "400 Bad Request\n"};
  }
  const std::string_view method = line.substr(0, method_end);
  std::string_view path = line.substr(method_end + 1, target_end - method_end - 1);
  path = path.substr(0, path.find('?'));
  const auto found = handlers_.find(std::string(path));
  if (found == handlers_.end()) return {.code = 404, .body = "404 page not found\n"};
  if (method != "GET" && method != "HEAD") return {.code = 405, .body = "Method Not Allowed\n"};
  return found->second();
}

}  // namespace berth::roles
