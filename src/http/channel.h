// A connected, non-blocking socket, plain or with TLS, read and written without blocking.
//
// TLS works straight on the descriptor, with OpenSSL's buffers released while a connection idles,
// so that thousands of idle watches cost little. A client costs no TLS object before the first
// record of its handshake has arrived, because such an object takes over 50 KB during a handshake.
// Not thread-safe: it belongs to the event loop.
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
  // Borrows `fd`. The channel is plain until StartTls.
  explicit Channel(int fd) : fd_(fd) {}

  SSL* ssl() const { return ssl_.get(); }  // null: the channel is plain

  // Whether a TLS handshake can make progress. Until then the socket becomes readable only when
  // more of the first record than before has arrived: call it at first, and each time that the
  // socket becomes readable.
  bool HelloArrived();
  // Uses TLS from now on.
  void StartTls(SslPtr ssl);
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

  // Lets the socket become readable when `bytes` have arrived.
  void SetLowWater(int bytes);

  const int fd_;
  int awaited_ = 0;  // bytes of the first record; 0: not waiting
  SslPtr ssl_;
  bool broken_ = false;
};

}  // namespace berth::http
