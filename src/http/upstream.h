// The far side of a proxied exchange: a stream socket, with bounded buffers both ways.
//
// Belongs to the event loop. `owner` guards the callbacks: once it has expired or Close was called,
// none is made.
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
    std::function<bool(std::string bytes)> on_bytes;  // false: no more until Drained
    std::function<void()> on_writable;                // no longer full
    std::function<void()> on_end;  // it closed or broke; all its bytes were given
  };

  Upstream(boost::asio::io_context& loop, std::weak_ptr<void> owner, Callbacks callbacks);

  bool Connect(const std::string& path);    // to a UNIX socket; false: nobody listens
  bool AdoptStream(base::UniqueFd stream);  // one that is connected; false: it is no stream socket
  void Send(std::string_view bytes);
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
  bool waiting_read_ = false;
  bool waiting_write_ = false;
  bool reading_ = false;
  bool ended_ = false;
  bool closed_ = false;
};

}  // namespace berth::http
