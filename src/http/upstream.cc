#include "http/upstream.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>

#include "base/free_text.h"

namespace berth::http {

using Socket = boost::asio::generic::stream_protocol::socket;

Upstream::Upstream(boost::asio::io_context& loop, std::weak_ptr<void> owner, Callbacks callbacks)
    : socket_(loop), owner_(std::move(owner)), callbacks_(std::move(callbacks)) {}

bool Upstream::Connect(const std::string& path) {
  // The endpoint's constructor throws if the path does not fit into sun_path.
  if (path.size() >= sizeof(sockaddr_un::sun_path)) return false;
  const boost::asio::local::stream_protocol::endpoint endpoint(path);
  boost::system::error_code error;
  socket_.open(endpoint.protocol(), error);
  if (!error) socket_.native_non_blocking(true, error);
  // A UNIX socket connects at once or, with a full backlog, not at all.
  if (!error) socket_.connect(endpoint, error);
  return !error;
}

bool Upstream::AdoptStream(base::UniqueFd stream) {
  int family = 0;
  socklen_t size = sizeof(family);
  if (getsockopt(stream.get(), SOL_SOCKET, SO_DOMAIN, &family, &size) != 0) return false;
  boost::system::error_code error;
  // Protocol 0 is the default protocol of the address family.
  socket_.assign(boost::asio::generic::stream_protocol(family, 0), stream.get(), error);
  if (error) return false;
  stream.Release();
  socket_.native_non_blocking(true, error);
  return !error;
}

void Upstream::Send(std::string_view bytes) {
  if (closed_ || ended_) return;
  out_.append(bytes);
  if (!waiting_write_) WriteQueued();
}

void Upstream::EndSending() {
  if (closed_ || ended_) return;
  sending_ended_ = true;
  if (!waiting_write_) WriteQueued();
}

void Upstream::WriteQueued() {
  const bool was_full = full();
  while (!out_.empty()) {
    const ssize_t sent = send(socket_.native_handle(), out_.data(), out_.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      out_.erase(0, static_cast<size_t>(sent));
    } else if (errno == EAGAIN) {
      waiting_write_ = true;
      socket_.async_wait(Socket::wait_write, [this, owner = owner_](const auto& error) {
        const auto alive = owner.lock();
        if (!alive) return;
        waiting_write_ = false;
        if (!closed_ && !error) WriteQueued();
      });
      break;
    } else if (errno != EINTR) {
      // The far side is gone. Read still finds the bytes that it sent before, and then its end.
      base::FreeText(out_);
      break;
    }
  }
  if (out_.empty()) base::FreeText(out_);
  if (out_.empty() && sending_ended_) shutdown(socket_.native_handle(), SHUT_WR);
  if (was_full && !full()) callbacks_.on_writable();
}

void Upstream::Read() {
  if (reading_ || waiting_read_) return;  // reading_: on_bytes called this function
  reading_ = true;
  bool more = true;
  size_t done = 0;
  while (more && !closed_ && !ended_) {
    if (done >= kBytesPerTurn) {
      waiting_read_ = true;
      boost::asio::post(socket_.get_executor(), [this, owner = owner_] {
        if (const auto alive = owner.lock()) ReadAgain();
      });
      break;
    }
    char buffer[16 * 1024];
    const ssize_t got = recv(socket_.native_handle(), buffer, sizeof(buffer), 0);
    if (got > 0) {
      done += static_cast<size_t>(got);
      more = callbacks_.on_bytes(std::string(buffer, static_cast<size_t>(got)));
    } else if (got < 0 && errno == EAGAIN) {
      waiting_read_ = true;
      socket_.async_wait(Socket::wait_read, [this, owner = owner_](const auto& error) {
        const auto alive = owner.lock();
        if (alive && !error) ReadAgain();
      });
      break;
    } else if (got == 0 || errno != EINTR) {
      ended_ = true;
    }
  }
  reading_ = false;
  if (ended_ && !closed_) callbacks_.on_end();
}

void Upstream::ReadAgain() {
  waiting_read_ = false;
  if (!closed_) Read();
}

void Upstream::Close() {
  closed_ = true;
  boost::system::error_code ignored;
  socket_.close(ignored);
}

}  // namespace berth::http
