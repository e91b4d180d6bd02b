#include "http/channel.h"

#include <errno.h>
#include <limits.h>
#include <openssl/err.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>

namespace berth::http {

using State = IoResult::State;

IoResult Channel::ToIoResult(int result) {
  if (result > 0) return {State::kDone, static_cast<size_t>(result)};
  switch (SSL_get_error(ssl_.get(), result)) {
    case SSL_ERROR_WANT_READ:
      return {State::kWantRead};
    case SSL_ERROR_WANT_WRITE:
      return {State::kWantWrite};
    case SSL_ERROR_ZERO_RETURN:
      return {State::kEof};
    default:
      // The error queue belongs to the thread, so an error that stays in it would be taken for an
      // error of another connection.
      ERR_clear_error();
      broken_ = true;
      return {State::kError};
  }
}

namespace {

// RFC 8446, section 5.1: content type, version, length.
constexpr int kRecordHead = 5;
constexpr unsigned char kHandshakeRecord = 22;
constexpr int kMaxRecord = 16 * 1024;

}  // namespace

bool Channel::HelloArrived() {
  int arrived = 0;
  // Woken with less than was awaited: the client has ended, and the handshake finds that.
  const bool woken_early =
      ioctl(fd_, FIONREAD, &arrived) != 0 || (awaited_ > 0 && arrived < awaited_);
  if (woken_early || (awaited_ > kRecordHead)) return true;
  if (arrived < kRecordHead) {
    SetLowWater(kRecordHead);
    return false;
  }
  unsigned char head[kRecordHead];
  if (recv(fd_, head, sizeof(head), MSG_PEEK) != kRecordHead) return true;
  const int record = kRecordHead + head[3] * 256 + head[4];
  // OpenSSL refuses what is no handshake.
  if (head[0] != kHandshakeRecord || record > kMaxRecord || arrived >= record) return true;
  SetLowWater(record);
  return false;
}

void Channel::StartTls(SslPtr ssl) {
  if (awaited_ > 0) SetLowWater(1);
  awaited_ = 0;
  ssl_ = std::move(ssl);
}

void Channel::SetLowWater(int bytes) {
  awaited_ = bytes;
  setsockopt(fd_, SOL_SOCKET, SO_RCVLOWAT, &bytes, sizeof(bytes));
}

IoResult Channel::Handshake() {
  ERR_clear_error();
  return ToIoResult(SSL_do_handshake(ssl_.get()));
}

IoResult Channel::Read(char* data, size_t size) {
  if (ssl_) {
    ERR_clear_error();
    return ToIoResult(
        SSL_read(ssl_.get(), data, static_cast<int>(std::min<size_t>(size, INT_MAX))));
  }
  while (true) {
    const ssize_t got = recv(fd_, data, size, 0);
    if (got > 0) return {State::kDone, static_cast<size_t>(got)};
    if (got == 0) return {State::kEof};
    if (errno == EINTR) continue;
    return {errno == EAGAIN ? State::kWantRead : State::kError};
  }
}

IoResult Channel::Write(std::string_view data) {
  if (ssl_) {
    ERR_clear_error();
    return ToIoResult(SSL_write(ssl_.get(), data.data(),
                                static_cast<int>(std::min<size_t>(data.size(), INT_MAX))));
  }
  while (true) {
    const ssize_t sent = send(fd_, data.data(), data.size(), MSG_NOSIGNAL);
    if (sent >= 0) return {State::kDone, static_cast<size_t>(sent)};
    if (errno == EINTR) continue;
    return {errno == EAGAIN ? State::kWantWrite : State::kError};
  }
}

void Channel::ShutdownWrite() {
  if (ssl_ && !broken_ && SSL_is_init_finished(ssl_.get())) {
    ERR_clear_error();
    SSL_shutdown(ssl_.get());
    ERR_clear_error();
  }
  shutdown(fd_, SHUT_WR);
}

}  // namespace berth::http
