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
    std::function<bool(std::string bytes)> on_bytes;  // false: no call before ResumeReading
    std::function<void()> on_writable;                // the queue of Send is no longer full
    std::function<void()> on_end;  // the far side closed or failed; on_bytes got all its bytes
  };

  Upstream(boost::asio::io_context& loop, std::weak_ptr<void> owner, Callbacks callbacks);

  // Connects to the UNIX socket at `path`. Returns false if that fails.
  bool Connect(const std::string& path);
  // Uses a connected socket. Returns false if `stream` is not a socket.
  bool AdoptStream(base::UniqueFd stream);
  // Queues the bytes and writes what the socket takes. The caller stops while full() is true.
  void Send(std::string_view bytes);
  // Shuts down this direction when all that was sent is written. Nothing may be sent after it.
  void EndSending();
  bool full() const { return out_.size() >= kMaxQueued; }
  // Reads and calls on_bytes until it returns false or the far side ends. After kBytesPerTurn it
  // goes on in another turn of the loop, because both sides may be as fast as this one.
  void Read();
  void ResumeReading() { Read(); }
  bool ended() const { return ended_; }
  void Close();

  static constexpr size_t kBytesPerTurn = 64 * 1024;

 private:
  static constexpr size_t kMaxQueued = 256 * 1024;

  void WriteQueued();
  void ReadAgain();

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
