// A keep-alive HTTP connection to the API, on its UNIX socket or over TLS. It keeps nothing but the
// last body, because the clients of the benchmarks must cost less than the server that they
// measure.
#pragma once

#include <openssl/ssl.h>

#include <memory>
#include <string>
#include <string_view>

#include "apiserver/access/openssl_ptr.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "kube/config.h"

namespace berth::bench {

// Returns the text of the last member `name` in a JSON text; "" if there is none. It is the last
// one, because a list's own metadata stands behind its items.
std::string FindLastMember(std::string_view json, std::string_view name);

class Http {
 public:
  // Connects to the UNIX socket at the path `socket`.
  static base::StatusOr<Http> ConnectUnix(const std::string& socket);
  // Connects to an address like "https://127.0.0.1:6443" with the config's client certificate, and
  // verifies the server's certificate.
  static base::StatusOr<Http> ConnectTls(const kube::Config& config);

  // Returns the body of an answer 200 or 201, which is valid until the next call. INTERNAL: the
  // answer has another code. UNAVAILABLE: the connection broke.
  base::StatusOr<std::string_view> Get(std::string_view target);
  base::StatusOr<std::string_view> Post(std::string_view target, std::string_view json);
  // Sends the request and reads the head of its answer. The events follow on fd().
  base::Status Watch(std::string_view target);

  int fd() const { return fd_.get(); }

 private:
  explicit Http(base::UniqueFd fd) : fd_(std::move(fd)) {}
  base::Status SendRequest(std::string_view method, std::string_view target, std::string_view body);
  base::Status ReadHead();
  base::StatusOr<std::string_view> ReadBody();
  // Fills buffer_ until it has `size` bytes behind the position.
  base::Status FillBuffer(size_t size);
  // Returns the next line without its end. Valid until the next read.
  base::StatusOr<std::string_view> ReadLine();

  base::UniqueFd fd_;
  std::unique_ptr<SSL, apiserver::OpenSslDeleter<SSL_free>> tls_;  // null: in the clear
  std::string request_;
  std::string buffer_;   // the received bytes
  size_t position_ = 0;  // how many of them were used
  std::string body_;
  size_t content_length_ = 0;
  bool chunked_ = false;
};

}  // namespace berth::bench
