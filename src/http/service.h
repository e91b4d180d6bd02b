// The interface by which an HTTP server uses its program: it identifies callers, renders errors and
// answers requests.
#pragma once

#include <openssl/ssl.h>
#include <sys/types.h>

#include <functional>
#include <memory>
#include <optional>

#include "http/exchange.h"
#include "http/message.h"

namespace berth::http {

// What the head of a request is worth: its user, or why it is refused; neither if the client may go
// on as a stranger (seats.h).
struct Identity {
  std::shared_ptr<const User> user = nullptr;
  std::optional<Refusal> refusal = std::nullopt;
  std::optional<Response> answer = std::nullopt;  // refuses as well, with this answer
};

// Its functions must not block, because they are called on the event loop; RenderRefusal may be
// called from any thread. The service must outlive the server.
class Service {
 public:
  virtual ~Service() = default;

  // Returns the user of a connection to the UNIX socket. `uid` is the user id of the peer process,
  // as the kernel reports it. The server refuses the connection if the result is null.
  virtual std::shared_ptr<const User> FindProcessUser(uid_t uid) const = 0;
  // Returns the user of a finished TLS handshake; null if its certificate names none.
  virtual std::shared_ptr<const User> FindCertificateUser(SSL* ssl) const { return nullptr; }
  // Decides from the head alone whether a request is refused, so that a client does not send a body
  // in vain. nullopt accepts the request. `user` is null if the transport knows no user.
  virtual std::optional<Refusal> CheckHead(const RequestHead& head, const User* user) const {
    return std::nullopt;
  }
  // Judges a request that CheckHead has accepted, whose body has not arrived or whose answer is a
  // stream (Server::JudgeStreams), and whose client is no owner (seats.h): its credentials, and
  // whether its user may do this. `head` has the user that the transport knows. The body is read
  // only after `done`, which may come later and from any thread, but not after the end of the
  // server. Handle gets the request without the user that is found here.
  virtual void Identify(Request head, std::function<void(Identity)> done) { done({}); }
  // Returns the answer that a client gets for `refusal`; nullopt: the connection is closed without
  // an answer.
  virtual std::optional<Response> RenderRefusal(const Refusal& refusal) const = 0;
  // Answers a request. The answer may come later and from any thread.
  virtual void Handle(std::shared_ptr<Exchange> exchange) = 0;
};

}  // namespace berth::http
