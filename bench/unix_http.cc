#include "bench/unix_http.h"

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

std::string LastMember(std::string_view json, std::string_view name) {
  const std::string key = fmt::format("\"{}\":\"", name);
  const size_t at = json.rfind(key);
  if (at == std::string_view::npos) return "";
  const size_t from = at + key.size();
  return std::string(json.substr(from, json.find('"', from) - from));
}

StatusOr<UnixHttp> UnixHttp::Connect(const std::string& socket) {
  base::UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = {}};
  if (socket.size() >= sizeof address.sun_path) {
    return Error(StatusCode::kInvalidArgument, "socket path '{}' is too long", socket);
  }
  memcpy(address.sun_path, socket.data(), socket.size());
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return Error(StatusCode::kUnavailable, "connect to '{}': {}", socket, strerror(errno));
  }
  return UnixHttp(std::move(fd));
}

Status UnixHttp::Send(std::string_view target) {
  const std::string request = fmt::format(
      "GET {} HTTP/1.1\r\nHost: localhost\r\nUser-Agent: bench\r\nAccept: application/json\r\n\r\n",
      target);
  if (write(fd_.get(), request.data(), request.size()) != static_cast<ssize_t>(request.size())) {
    return Error(StatusCode::kUnavailable, "send the request: {}", strerror(errno));
  }
  return base::OkStatus();
}

Status UnixHttp::Need(size_t size) {
  if (position_ > 0 && position_ == buffer_.size()) {
    buffer_.clear();
    position_ = 0;
  }
  while (buffer_.size() - position_ < size) {
    char piece[65536];
    const ssize_t n = read(fd_.get(), piece, sizeof piece);
    if (n <= 0) return Error(StatusCode::kUnavailable, "the server closed the connection");
    buffer_.append(piece, static_cast<size_t>(n));
  }
  return base::OkStatus();
}

StatusOr<std::string_view> UnixHttp::Line() {
  size_t end;
  while ((end = buffer_.find("\r\n", position_)) == std::string::npos) {
    RETURN_IF_ERROR(Need(buffer_.size() - position_ + 1));
  }
  const std::string_view line = std::string_view(buffer_).substr(position_, end - position_);
  position_ = end + 2;
  return line;
}

Status UnixHttp::ReadHead() {
  ASSIGN_OR_RETURN(const std::string_view status, Line());
  const bool ok = status.starts_with("HTTP/1.1 200");
  const std::string first(status);
  content_length_ = 0;
  chunked_ = false;
  while (true) {
    ASSIGN_OR_RETURN(const std::string_view line, Line());
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

StatusOr<std::string_view> UnixHttp::Get(std::string_view target) {
  RETURN_IF_ERROR(Send(target));
  RETURN_IF_ERROR(ReadHead());
  body_.clear();
  while (true) {
    size_t size = content_length_;
    if (chunked_) {
      ASSIGN_OR_RETURN(const std::string_view line, Line());
      size = 0;
      std::from_chars(line.data(), line.data() + line.size(), size, 16);
    }
    RETURN_IF_ERROR(Need(size));
    body_.append(buffer_, position_, size);
    position_ += size;
    if (chunked_) RETURN_IF_ERROR(Line().status());
    if (!chunked_ || size == 0) return std::string_view(body_);
  }
}

Status UnixHttp::Watch(std::string_view target) {
  RETURN_IF_ERROR(Send(target));
  return ReadHead();
}

}  // namespace berth::bench
