#include "roles/http_endpoint.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>

#include "base/log.h"
#include "base/unique_fd.h"
#include "http/server.h"

namespace berth::roles {

using base::Error;
using base::StatusCode;
using base::StatusOr;
using base::UniqueFd;
using std::chrono::milliseconds;

namespace {

constexpr milliseconds kMaxTime{5000};  // to receive a request, and to send its answer
constexpr http::Limits kLimits{
    .max_head = 8 * 1024,
    .max_body = 8 * 1024,
    // Everybody is a stranger here. An address has at most half of the seats, and loses its longest
    // silent connection for a new one. The other half is for addresses that have few, so that the
    // kubelet's probe finds one.
    .seats = {.total = 64,
              .owner_reserve = 0,
              .max_strangers = 64,
              .kept_for_few = 32,
              .max_per_address = 32},
    .request = kMaxTime,
    .stall = kMaxTime,
    .answer = kMaxTime,
    .one_request = true,
    .http_1_0 = true};

struct HostAndPort {
  std::string host;  // empty: all addresses
  std::string port;
};

std::optional<HostAndPort> SplitAddress(std::string_view address) {
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
  // The IPv6 wildcard also accepts IPv4 connections, as in Go.
  if (where.ai_family == AF_INET6) {
    setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  }
  if (bind(fd.get(), where.ai_addr, where.ai_addrlen) != 0 || listen(fd.get(), SOMAXCONN) != 0) {
    return Error(StatusCode::kUnavailable, "listen: {}", std::strerror(errno));
  }
  return fd;
}

StatusOr<UniqueFd> ListenAt(const std::string& address) {
  const auto parts = SplitAddress(address);
  if (!parts.has_value()) {
    return Error(StatusCode::kInvalidArgument, "{} is no address to listen at, such as ':8080'",
                 base::Quote(address));
  }
  addrinfo hints{};
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  // An address without a host means the IPv6 wildcard, or the IPv4 wildcard if the kernel has no
  // IPv6.
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

http::Response ToHttpResponse(HttpEndpoint::Answer answer) {
  return {.code = answer.code,
          .content_type = std::move(answer.content_type),
          .body = std::move(answer.body),
          .headers = {{"X-Content-Type-Options", "nosniff"}},
          .cache_control = ""};
}

}  // namespace

StatusOr<std::unique_ptr<HttpEndpoint>> HttpEndpoint::Listen(
    const std::string& address, std::map<std::string, Handler> handlers) {
  ASSIGN_OR_RETURN(UniqueFd listener, ListenAt(address));
  auto endpoint = std::unique_ptr<HttpEndpoint>(new HttpEndpoint(std::move(handlers)));
  ASSIGN_OR_RETURN(endpoint->http_,
                   http::Server::Listen({.listener = std::move(listener), .limits = kLimits},
                                        nullptr, *endpoint));
  return endpoint;
}

HttpEndpoint::HttpEndpoint(std::map<std::string, Handler> handlers)
    : workers_({.name = "http", .max_threads = std::max<size_t>(handlers.size(), 1)}) {
  for (auto& [path, handler] : handlers) paths_[path].handler = std::move(handler);
}

HttpEndpoint::~HttpEndpoint() {
  if (!http_) return;
  http_->Drain(kMaxTime);
  http_->Stop();
}

uint16_t HttpEndpoint::port() const { return http_->port(); }

std::optional<http::Refusal> HttpEndpoint::CheckHead(const http::RequestHead& head,
                                                     const http::User*) const {
  if (!paths_.contains(head.path)) return http::Refusal{.code = 404, .message = {}};
  if (head.method != "GET" && head.method != "HEAD") {
    return http::Refusal{.code = 405, .message = {}};
  }
  return std::nullopt;
}

std::optional<http::Response> HttpEndpoint::RenderRefusal(const http::Refusal& refusal) const {
  switch (refusal.code) {
    case 404:
      return ToHttpResponse({.code = 404, .body = "404 page not found\n"});
    case 405:
      return ToHttpResponse({.code = 405, .body = "Method Not Allowed\n"});
    case 431:
      return std::nullopt;
    case 500:
      return ToHttpResponse({.code = 500, .body = "500 Internal Server Error\n"});
    default:
      return ToHttpResponse({.code = 400, .body = "400 Bad Request\n"});
  }
}

void HttpEndpoint::Handle(std::shared_ptr<http::Exchange> exchange) {
  const http::Request& request = exchange->request();
  const std::string path(request.raw_path());
  const http::RequestHead head{.method = request.method, .path = path};
  if (const auto refusal = CheckHead(head, nullptr)) {
    return exchange->Reply(*RenderRefusal(*refusal));
  }
  Path& asked = paths_.at(path);
  {
    base::MutexLock lock(asked.mutex);
    asked.waiting.push_back(std::move(exchange));
    if (std::exchange(asked.running, true)) return;
  }
  if (!workers_.Post([&asked] { AnswerWaiting(asked); })) RefuseWaiting(asked);
}

void HttpEndpoint::RefuseWaiting(Path& path) {
  std::vector<std::shared_ptr<http::Exchange>> waiting;
  {
    base::MutexLock lock(path.mutex);
    path.running = false;
    waiting.swap(path.waiting);
  }
  const http::Response answer = ToHttpResponse({.code = 503, .body = "503 Service Unavailable\n"});
  for (const auto& exchange : waiting) exchange->Reply(answer);
}

void HttpEndpoint::AnswerWaiting(Path& path) {
  while (true) {
    std::vector<std::shared_ptr<http::Exchange>> waiting;
    {
      base::MutexLock lock(path.mutex);
      path.running = !path.waiting.empty();
      if (!path.running) return;
      waiting.swap(path.waiting);
    }
    const http::Response answer = ToHttpResponse(path.handler());
    for (const auto& exchange : waiting) exchange->Reply(answer);
  }
}

}  // namespace berth::roles
