#include "bench/http.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <charconv>
#include <cstring>

namespace berth::bench {

using base::Error;
using base::Status;
using base::StatusCode;
using base::StatusOr;

std::string FindLastMember(std::string_view json, std::string_view name) {
  const std::string key = fmt::format("\"{}\":\"", name);
  const size_t at = json.rfind(key);
  if (at == std::string_view::npos) return "";
  const size_t from = at + key.size();
  return std::string(json.substr(from, json.find('"', from) - from));
}

StatusOr<Http> Http::ConnectUnix(const std::string& socket) {
  base::UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = {}};
  if (socket.size() >= sizeof address.sun_path) {
    return Error(StatusCode::kInvalidArgument, "socket path '{}' is too long", socket);
  }
  memcpy(address.sun_path, socket.data(), socket.size());
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return Error(StatusCode::kUnavailable, "connect to '{}': {}", socket, strerror(errno));
  }
  return Http(std::move(fd));
}

namespace {

using ContextPtr = std::unique_ptr<SSL_CTX, apiserver::OpenSslDeleter<SSL_CTX_free>>;

StatusOr<ContextPtr> MakeTlsContext(const kube::Config& config) {
  ContextPtr context(SSL_CTX_new(TLS_client_method()));
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  ASSIGN_OR_RETURN(const auto ca, apiserver::ParseCertificate(config.certificate_authority));
  ASSIGN_OR_RETURN(const auto own, apiserver::ParseCertificate(config.client_certificate));
  ASSIGN_OR_RETURN(const auto key, apiserver::ParseKey(config.client_key));
  if (X509_STORE_add_cert(SSL_CTX_get_cert_store(context.get()), ca.get()) != 1 ||
      SSL_CTX_use_certificate(context.get(), own.get()) != 1 ||
      SSL_CTX_use_PrivateKey(context.get(), key.get()) != 1) {
    return apiserver::OpenSslError("use the kubeconfig's certificates");
  }
  return context;
}

StatusOr<base::UniqueFd> ConnectTo(std::string_view server) {
  constexpr std::string_view kScheme = "https://";
  const size_t colon = server.rfind(':');
  uint16_t port = 0;
  sockaddr_in address = {.sin_family = AF_INET, .sin_port = 0, .sin_addr = {}, .sin_zero = {}};
  if (!server.starts_with(kScheme) ||
      std::from_chars(server.data() + colon + 1, server.data() + server.size(), port).ec !=
          std::errc() ||
      inet_pton(AF_INET, std::string(server.substr(kScheme.size(), colon - kScheme.size())).c_str(),
                &address.sin_addr) != 1) {
    return Error(StatusCode::kInvalidArgument, "'{}' is not https://ADDRESS:PORT", server);
  }
  address.sin_port = htons(port);
  base::UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return Error(StatusCode::kUnavailable, "connect to '{}': {}", server, strerror(errno));
  }
  const int one = 1;
  setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  return fd;
}

}  // namespace

StatusOr<Http> Http::ConnectTls(const kube::Config& config) {
  ASSIGN_OR_RETURN(const ContextPtr context, MakeTlsContext(config));
  ASSIGN_OR_RETURN(base::UniqueFd fd, ConnectTo(config.server));
  Http http(std::move(fd));
  http.tls_.reset(SSL_new(context.get()));
  SSL_set_fd(http.tls_.get(), http.fd());
  if (SSL_connect(http.tls_.get()) != 1) {
    return Error(StatusCode::kUnavailable, "TLS with '{}' failed", config.server);
  }
  return http;
}

Status Http::SendRequest(std::string_view method, std::string_view target, std::string_view body) {
  request_.clear();
  fmt::format_to(std::back_inserter(request_),
                 "{} {} HTTP/1.1\r\nHost: localhost\r\nUser-Agent: bench\r\n"
                 "Accept: application/json\r\n",
                 method, target);
  if (!body.empty()) {
    fmt::format_to(std::back_inserter(request_),
                   "Content-Type: application/json\r\nContent-Length: {}\r\n", body.size());
  }
  request_.append("\r\n").append(body);
  const auto size = static_cast<int>(request_.size());
  const auto sent = tls_ ? SSL_write(tls_.get(), request_.data(), size)
                         : static_cast<int>(write(fd(), request_.data(), request_.size()));
  if (sent != size) return Error(StatusCode::kUnavailable, "the request could not be sent");
  return base::OkStatus();
}

Status Http::FillBuffer(size_t size) {
  if (position_ > 0 && position_ == buffer_.size()) {
    buffer_.clear();
    position_ = 0;
  }
  while (buffer_.size() - position_ < size) {
    char piece[65536];
    const auto n = tls_ ? SSL_read(tls_.get(), piece, sizeof piece)
                        : static_cast<int>(read(fd(), piece, sizeof piece));
    if (n <= 0) return Error(StatusCode::kUnavailable, "the server closed the connection");
    buffer_.append(piece, static_cast<size_t>(n));
  }
  return base::OkStatus();
}

StatusOr<std::string_view> Http::ReadLine() {
  size_t end;
  while ((end = buffer_.find("\r\n", position_)) == std::string::npos) {
    RETURN_IF_ERROR(FillBuffer(buffer_.size() - position_ + 1));
  }
  const std::string_view line = std::string_view(buffer_).substr(position_, end - position_);
  position_ = end + 2;
  return line;
}

Status Http::ReadHead() {
  ASSIGN_OR_RETURN(const std::string_view status, ReadLine());
  const bool ok = status.starts_with("HTTP/1.1 200") || status.starts_with("HTTP/1.1 201");
  const std::string first(status);
  content_length_ = 0;
  chunked_ = false;
  while (true) {
    ASSIGN_OR_RETURN(const std::string_view line, ReadLine());
    if (line.empty()) break;
    constexpr std::string_view kLength = "content-length: ", kEncoding = "transfer-encoding: ";
    if (strncasecmp(line.data(), kLength.data(), kLength.size()) == 0) {
      std::from_chars(line.data() + kLength.size(), line.data() + line.size(), content_length_);
    } else if (strncasecmp(line.data(), kEncoding.data(), kEncoding.size()) == 0) {
      chunked_ = true;
    }
  }
  return ok ? base::OkStatus() : Error(StatusCode::kInternal, "answer '{}'", first);
}

StatusOr<std::string_view> Http::ReadBody() {
  body_.clear();
  while (true) {
    size_t size = content_length_;
    if (chunked_) {
      ASSIGN_OR_RETURN(const std::string_view line, ReadLine());
      size = 0;
      std::from_chars(line.data(), line.data() + line.size(), size, 16);
    }
    RETURN_IF_ERROR(FillBuffer(size));
    body_.append(buffer_, position_, size);
    position_ += size;
    if (chunked_) RETURN_IF_ERROR(ReadLine().status());
    if (!chunked_ || size == 0) return std::string_view(body_);
  }
}

StatusOr<std::string_view> Http::Get(std::string_view target) {
  RETURN_IF_ERROR(SendRequest("GET", target, ""));
  RETURN_IF_ERROR(ReadHead());
  return ReadBody();
}

StatusOr<std::string_view> Http::Post(std::string_view target, std::string_view json) {
  RETURN_IF_ERROR(SendRequest("POST", target, json));
  RETURN_IF_ERROR(ReadHead());
  return ReadBody();
}

Status Http::Watch(std::string_view target) {
  RETURN_IF_ERROR(SendRequest("GET", target, ""));
  return ReadHead();
}

}  // namespace berth::bench
