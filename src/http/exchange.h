// One request and its answer: the seam between the transport and what answers.
//
//   Reply ───────────────────────────────▶ done
//   StartStream ─▶ Push ... ─▶ EndStream ─▶ done
//   Proxy ─▶ bytes both ways until one side ends ─▶ done
//
// Thread-safe: an answer is given from any thread, once. The handler gets a handle (NewHandle):
// when the last copy of it goes, a request without an answer is answered 500, and an open stream is
// ended. The callbacks run on the event loop and must not block.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/unique_fd.h"
#include "http/message.h"

namespace berth::http {

// What a connection offers its exchange, on any thread.
class ExchangeHost {
 public:
  virtual ~ExchangeHost() = default;
  virtual void Wake() = 0;  // calls the connection on the event loop
  virtual std::optional<Response> RenderRefusal(const Refusal& refusal) const = 0;
};

// A request to be handed on to a socket: the whole exchange becomes bytes that pass both ways.
struct ProxyTarget {
  base::UniqueFd stream = base::UniqueFd();  // a connected socket; else `socket` is connected to
  std::string socket = {};                   // path of a UNIX socket
  std::string head;  // the request to send there, with the body that was read
  Response failure;  // the answer when nobody listens there
};

class Exchange {
 public:
  // Bytes that may wait for a slow client; what comes on top ends the stream.
  static constexpr size_t kMaxQueuedBytes = 1024 * 1024;
  static constexpr size_t kMaxQueuedFrames = 10'000;

  Exchange(std::weak_ptr<ExchangeHost> host, Request request);
  static std::shared_ptr<Exchange> NewHandle(const std::shared_ptr<Exchange>& exchange);
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  const Request& request() const { return request_; }
  // For the handler's thread alone, before it answers.
  std::string TakeBody() { return std::move(request_.body); }
  void SetUser(std::shared_ptr<const User> user) { request_.user = std::move(user); }
  // What the client should hear of beside the answer; the same is said once.
  void AddWarning(std::string_view text) ABSL_LOCKS_EXCLUDED(mutex_);
  // The values of the answer's Warning headers (RFC 7234): 299 - "text".
  std::vector<std::string> TakeWarnings() ABSL_LOCKS_EXCLUDED(mutex_);

  void Reply(const Response& response);
  void StartStream(const Response& head);
  // Queues a frame (EncodeChunk'd). False when the stream has ended: the client is gone, or too
  // slow for the queue's bound, in which case what is queued is still sent and the stream then
  // closed.
  bool Push(const Frame& frame);
  // Queues a frame whatever its size, for one who awaits OnDrained before the next. False if it has
  // ended.
  bool PushPage(const Frame& frame);
  void EndStream();
  // Cuts the connection off in the middle of a stream: the client must not take what it got for the
  // whole.
  void BreakStream();
  // Whether the client is gone or has its answer; for one who works on without pushing.
  bool over() ABSL_LOCKS_EXCLUDED(mutex_);
  void Proxy(ProxyTarget target);

  // `callback` runs once when the exchange is over, for whatever reason; at once if it is already.
  void OnOver(std::function<void()> callback);
  // `callback` runs once when everything pushed so far has gone to the socket; never if the client
  // goes.
  void OnDrained(std::function<void()> callback);

 private:
  friend class Connection;
  struct Pending {  // what the event loop has yet to take over
    std::vector<Frame> frames;
    bool end = false;
    bool end_by_close = false;
    bool broken = false;
    std::unique_ptr<ProxyTarget> proxy;
    std::function<void()> on_drained;
  };

  // For the connection, on the event loop.
  bool streaming() ABSL_LOCKS_EXCLUDED(mutex_);  // answers with more than one frame
  Pending Take() ABSL_LOCKS_EXCLUDED(mutex_);
  void Sent(size_t frames, size_t bytes) ABSL_LOCKS_EXCLUDED(mutex_);
  void Over() ABSL_LOCKS_EXCLUDED(mutex_);

  void Abandoned();
  void Enqueue(Frame frame) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Wake();

  const std::weak_ptr<ExchangeHost> host_;
  Request request_;
  base::Mutex mutex_;
  Pending pending_ ABSL_GUARDED_BY(mutex_);
  size_t queued_frames_ ABSL_GUARDED_BY(mutex_) = 0;  // not yet written to the socket
  size_t queued_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<std::string> warnings_ ABSL_GUARDED_BY(mutex_);
  bool streaming_ ABSL_GUARDED_BY(mutex_) = false;
  bool answered_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  bool over_ ABSL_GUARDED_BY(mutex_) = false;
  std::function<void()> on_over_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace berth::http
