// A connected, non-blocking socket, plain or with TLS, read and written without blocking.
//
// TLS works straight on the descriptor, with OpenSSL's buffers released while a connection idles,
// so that thousands of idle watches cost little. Not thread-safe: it belongs to the event loop.
#pragma once

#include <string>
#include <string_view>

#include "http/tls.h"

namespace berth::http {

struct IoResult {
  enum class State { kDone, kWantRead, kWantWrite, kEof, kError };
  State state = State::kError;
  size_t bytes = 0;  // how many were read or written; only with kDone
};

class Channel {
 public:
  // Borrows `fd`. Without `ssl` the channel is plain.
  Channel(int fd, SslPtr ssl) : fd_(fd), ssl_(std::move(ssl)) {}

  bool secure() const { return ssl_ != nullptr; }
  SSL* ssl() const { return ssl_.get(); }

  // One step of the TLS handshake, for a channel with TLS. kDone: the handshake is complete.
  IoResult Handshake();
  // Reads up to `size` bytes. kEof: the peer has ended its direction.
  IoResult Read(char* data, size_t size);
  // Writes some of `data`, and returns how many bytes. With TLS, a call that follows kWantRead or
  // kWantWrite must begin with the same bytes; they may lie at another address.
  IoResult Write(std::string_view data);
  // Tells the peer that nothing more will be sent (close_notify, FIN). Does not wait.
  void ShutdownWrite();

 private:
  // Turns the result of an SSL_ function into an IoResult.
  IoResult ToIoResult(int result);

  const int fd_;
  SslPtr ssl_;
  bool broken_ = false;
};

}  // namespace berth::http
