// The far side of a proxied exchange: a stream on a UNIX socket, with bounded buffers both ways.
//
// Belongs to the event loop. `owner` guards the callbacks: once it has expired or Close was called,
// none is made.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace berth::apiserver {

class Upstream {
 public:
  struct Callbacks {
    std::function<bool(std::string bytes)> on_bytes;  // false: no more until Drained
    std::function<void()> on_writable;                // no longer full
    std::function<void()> on_end;  // it closed or broke; all its bytes were given
  };

  Upstream(boost::asio::io_context& loop, std::weak_ptr<void> owner, Callbacks callbacks);

  bool Connect(const std::string& path);  // false: nobody listens
  void Send(std::string_view bytes);
  bool full() const { return out_.size() >= kMaxQueued; }
  void Read();
  void Drained() { Read(); }
  bool ended() const { return ended_; }
  void Close();

 private:
  static constexpr size_t kMaxQueued = 256 * 1024;

  void Flush();

  boost::asio::local::stream_protocol::socket socket_;
  const std::weak_ptr<void> owner_;
  const Callbacks callbacks_;
  std::string out_;
  bool waiting_read_ = false;
  bool waiting_write_ = false;
  bool reading_ = false;
  bool ended_ = false;
  bool closed_ = false;
};

}  // namespace berth::apiserver
