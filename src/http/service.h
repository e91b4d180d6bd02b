// What an HTTP server asks of what it serves: who a caller is, how an error looks, and the answers.
#pragma once

#include <openssl/ssl.h>
#include <sys/types.h>

#include <memory>
#include <optional>

#include "http/exchange.h"
#include "http/message.h"

namespace berth::http {

// Called on the event loop, so that it must not block; RenderRefusal is called from any thread.
// Outlives the server.
class Service {
 public:
  virtual ~Service() = default;

  // The user behind a connection to the UNIX socket, whose process is the kernel's `uid`; null
  // refuses the connection.
  virtual std::shared_ptr<const User> FindProcessUser(uid_t uid) const = 0;
  // The user of a finished TLS handshake; null if its certificate names none.
  virtual std::shared_ptr<const User> FindCertificateUser(SSL* ssl) const { return nullptr; }
  // Why a request is refused by its head alone, so that nobody sends a body in vain; nullopt takes
  // it. `user` is null if the transport knows none.
  virtual std::optional<Refusal> CheckHead(const RequestHead& head, const User* user) const {
    return std::nullopt;
  }
  // The answer that a client gets for `refusal`; nullopt ends the connection without one.
  virtual std::optional<Response> RenderRefusal(const Refusal& refusal) const = 0;
  // Answers a request, now or later, on any thread.
  virtual void Handle(std::shared_ptr<Exchange> exchange) = 0;
};

}  // namespace berth::http
