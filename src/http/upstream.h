// The far side of a proxied exchange: a stream socket, with bounded buffers both ways.
//
// Belongs to the event loop. No callback is made after `owner` has expired or Close was called.
#pragma once

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/unique_fd.h"

namespace berth::http {

class Upstream {
 public:
  struct Callbacks {
    std::function<bool(std::string bytes)> on_bytes;  // false: give no more until Drained
    std::function<void()> on_writable;                // the queue is no longer full
    std::function<void()> on_end;  // the far side closed or failed; all its bytes were given
  };

  Upstream(boost::asio::io_context& loop, std::weak_ptr<void> owner, Callbacks callbacks);

  bool Connect(const std::string& path);    // to a UNIX socket; false: cannot connect
  bool AdoptStream(base::UniqueFd stream);  // a connected one; false: it is not a socket
  void Send(std::string_view bytes);
  // Shuts down this direction when all that was sent is written. Nothing may be sent after it.
  void EndSending();
  bool full() const { return out_.size() >= kMaxQueued; }
  void Read();
  void Drained() { Read(); }
  bool ended() const { return ended_; }
  void Close();

 private:
  static constexpr size_t kMaxQueued = 256 * 1024;

  void Flush();

  boost::asio::generic::stream_protocol::socket socket_;
  const std::weak_ptr<void> owner_;
  const Callbacks callbacks_;
  std::string out_;
  bool sending_ended_ = false;
  bool waiting_read_ = false;
  bool waiting_write_ = false;
  bool reading_ = false;
  bool ended_ = false;
  bool closed_ = false;
};

}  // namespace berth::http
