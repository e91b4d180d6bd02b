// For tests: a small blocking HTTP client on a UNIX socket, or on a TCP port of this machine.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <chrono>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/unique_fd.h"

namespace berth::http {

using base::Json;

// A connection with a deadline on every read.
class TestConnection {
 public:
  static constexpr std::chrono::seconds kDeadline{10};

  explicit TestConnection(const std::string& path)
      : fd_(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{.sun_family = AF_UNIX};
    path.copy(address.sun_path, sizeof(address.sun_path) - 1);
    if (connect(fd_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0)
      fd_.Reset();
  }

  // Connects from `address`, one of 127.0.0.0/8.
  explicit TestConnection(uint16_t port, const char* address = "127.0.0.1")
      : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in own{.sin_family = AF_INET};
    inet_pton(AF_INET, address, &own.sin_addr);
    sockaddr_in server{.sin_family = AF_INET, .sin_port = htons(port)};
    server.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(fd_.get(), reinterpret_cast<sockaddr*>(&own), sizeof(own)) != 0 ||
        connect(fd_.get(), reinterpret_cast<sockaddr*>(&server), sizeof(server)) != 0) {
      fd_.Reset();
    }
  }

  bool connected() const { return fd_.valid(); }
  void Send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
  }
  void ShutdownWrite() { shutdown(fd_.get(), SHUT_WR); }

  // Reads more into the buffer; false at the end, an error or the deadline.
  bool Fill() {
    pollfd wait{.fd = fd_.get(), .events = POLLIN};
    if (poll(&wait, 1, static_cast<int>(std::chrono::milliseconds(kDeadline).count())) != 1)
      return false;
    char data[65536];
    const ssize_t got = recv(fd_.get(), data, sizeof(data), 0);
    if (got <= 0) return false;
    buffer_.append(data, static_cast<size_t>(got));
    return true;
  }

  // Reads up to the end of `mark`; empty if it does not come.
  std::string ReadUntil(std::string_view mark) {
    size_t at;
    while ((at = buffer_.find(mark)) == std::string::npos) {
      if (!Fill()) return {};
    }
    return TakeBytes(at + mark.size());
  }
  std::string ReadExactly(size_t size) {
    while (buffer_.size() < size) {
      if (!Fill()) return {};
    }
    return TakeBytes(size);
  }
  std::string ReadToEnd() {
    while (Fill()) {
    }
    return TakeBytes(buffer_.size());
  }
  // Reads one chunk of a chunked body; empty at its end.
  std::string ReadChunk() {
    const std::string line = ReadUntil("\r\n");
    const size_t size = line.empty() ? 0 : std::stoul(line, nullptr, 16);
    std::string data = ReadExactly(size);
    ReadExactly(2);
    return data;
  }

 private:
  std::string TakeBytes(size_t size) {
    std::string out = buffer_.substr(0, size);
    buffer_.erase(0, size);
    return out;
  }

  base::UniqueFd fd_;
  std::string buffer_;
};

struct TestResponse {
  int code = 0;
  std::string head;
  std::string body;
  Json json;  // null if the body is not JSON

  std::string message() const { return base::json::String(json, {"message"}); }
  std::string reason() const { return base::json::String(json, {"reason"}); }
  std::string version() const { return base::json::String(json, {"metadata", "resourceVersion"}); }
};

// Returns the bytes of a request.
inline std::string RequestText(std::string_view method, std::string_view target,
                               std::string_view body, std::string_view headers) {
  return fmt::format("{} {} HTTP/1.1\r\nHost: test\r\nContent-Length: {}\r\n{}\r\n{}", method,
                     target, body.size(), headers, body);
}

inline TestResponse ReadResponse(TestConnection& connection) {
  TestResponse response;
  response.head = connection.ReadUntil("\r\n\r\n");
  if (response.head.size() < 12) return response;
  response.code = std::stoi(response.head.substr(9, 3));
  const size_t length = response.head.find("Content-Length: ");
  if (length != std::string::npos) {
    response.body = connection.ReadExactly(std::stoul(response.head.substr(length + 16)));
  } else if (response.head.find("chunked") != std::string::npos) {
    for (std::string chunk; !(chunk = connection.ReadChunk()).empty();) response.body += chunk;
  }
  response.json = base::json::Parse(response.body, {.max_bytes = 64 << 20}).value_or(Json());
  return response;
}

}  // namespace berth::http
