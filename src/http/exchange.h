// One request and its answer: the interface between the connection and the handler that answers.
//
//   Reply ───────────────────────────────▶ done
//   StartStream ─▶ Push ... ─▶ EndStream ─▶ done
//   Proxy ─▶ bytes both ways until one side ends ─▶ done
//
// Thread-safe: any thread may give the answer. Only the first answer counts: a further Reply,
// StartStream or Proxy does nothing. The handler gets a handle (NewHandle). When the last copy of
// the handle is destroyed, a request without an answer is answered with 500, and an open stream is
// ended. The callbacks run on the event loop, or on the thread of a LocalCall, and must not block.
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

// An exchange answers through its host, which is a connection or a LocalCall. The functions may be
// called on any thread.
class ExchangeHost {
 public:
  virtual ~ExchangeHost() = default;
  // Makes the event loop call the connection, which then sends what the exchange has queued.
  virtual void Wake() = 0;
  // As Service::RenderRefusal (service.h).
  virtual std::optional<Response> RenderRefusal(const Refusal& refusal) const = 0;
};

// Where a request is forwarded to. From then on the connection copies bytes in both directions.
struct ProxyTarget {
  base::UniqueFd stream = base::UniqueFd();  // a connected socket; if invalid, `socket` is used
  std::string socket = {};                   // path of a UNIX socket
  std::string head;  // the request to send there, with the part of the body that was read
  Response failure;  // the answer if the socket cannot be connected
};

class Exchange {
 public:
  // How much may wait for a slow client. A frame beyond these bounds ends the stream, except that a
  // single frame may have any size.
  static constexpr size_t kMaxQueuedBytes = 1024 * 1024;
  static constexpr size_t kMaxQueuedFrames = 10'000;

  // `host` may be gone at any time; then answers are dropped.
  Exchange(std::weak_ptr<ExchangeHost> host, Request request);
  // Returns the handle for the handler, as the comment of this file says.
  static std::shared_ptr<Exchange> NewHandle(const std::shared_ptr<Exchange>& exchange);
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  const Request& request() const { return request_; }
  // Only the handler's thread may call these two, and only before it answers. The answer makes the
  // user's connection one of a verified client (seats.h).
  std::string TakeBody() { return std::move(request_.body); }
  void SetUser(std::shared_ptr<const User> user) { request_.user = std::move(user); }
  // Adds a warning that goes to the client with the answer. A text that was added before is
  // ignored, and so are all after the first 64. A text is cut at 256 bytes.
  void AddWarning(std::string_view text) ABSL_LOCKS_EXCLUDED(mutex_);
  // Removes and returns the values of the answer's Warning headers (RFC 7234): 299 - "text".
  std::vector<std::string> TakeWarnings() ABSL_LOCKS_EXCLUDED(mutex_);

  // Sends a whole answer.
  void Reply(const Response& response);
  // Sends the head of an answer whose body follows in chunks (Push). For a HEAD request the head is
  // the whole answer.
  void StartStream(const Response& head);
  // Lets the client read nothing for Limits::pause in place of Limits::stall. Call it for a stream
  // whose source waits for the client. A proxied exchange has this right without a call.
  void AllowPauses() ABSL_LOCKS_EXCLUDED(mutex_);
  // Queues a frame, which EncodeChunk has made. Returns false if the stream has ended, because the
  // client is gone or because the queue is full. When the queue is full, the queued frames are
  // still sent, and then the stream ends.
  bool Push(const Frame& frame);
  // Queues a frame without the bounds. The caller waits for OnDrained before it queues the next
  // one. Returns false if the stream has ended.
  bool PushPage(const Frame& frame);
  // Ends the stream in order. Does nothing if there is no open stream.
  void EndStream();
  // Closes the connection in the middle of a stream, so that the client does not take the part that
  // it received for the whole answer. Does nothing if there is no open stream.
  void BreakStream();
  // Whether the client is gone or the answer has ended. A handler that works for long without a
  // Push calls this from time to time.
  bool over() ABSL_LOCKS_EXCLUDED(mutex_);
  // Forwards the request to `target`, whose bytes are the answer.
  void Proxy(ProxyTarget target);

  // Runs `callback` once when the exchange is over, because the whole answer was written or the
  // connection was closed; immediately, on this thread, if it is over already. A later callback
  // replaces an earlier one.
  void OnOver(std::function<void()> callback);
  // Runs `callback` once when everything that was pushed so far is written to the socket; never if
  // the client goes away first. A later callback replaces an earlier one.
  void OnDrained(std::function<void()> callback);

 private:
  friend class Connection;
  friend class LocalCall;
  struct Pending {  // what the connection has not taken yet
    std::vector<Frame> frames;
    bool end = false;
    bool end_by_close = false;
    bool broken = false;
    std::unique_ptr<ProxyTarget> proxy;
    std::function<void()> on_drained;
    std::shared_ptr<const User> user;  // the user who gets the answer; null: none, or no answer yet
  };

  // The connection calls these on the event loop, and a LocalCall on its own thread.
  bool streaming() ABSL_LOCKS_EXCLUDED(mutex_);  // the answer is a stream
  bool may_pause() ABSL_LOCKS_EXCLUDED(mutex_);  // AllowPauses was called
  // Removes and returns what is pending.
  Pending TakePending() ABSL_LOCKS_EXCLUDED(mutex_);
  // Removes what was written to the socket from the counts of the queue.
  void CountSent(size_t frames, size_t bytes) ABSL_LOCKS_EXCLUDED(mutex_);
  // Drops what is pending and runs the callback of OnOver.
  void MarkOver() ABSL_LOCKS_EXCLUDED(mutex_);

  // Gives the answer that is missing when the last handle is destroyed.
  void AnswerAbandoned();
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
  bool may_pause_ ABSL_GUARDED_BY(mutex_) = false;
  bool answered_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  bool over_ ABSL_GUARDED_BY(mutex_) = false;
  std::function<void()> on_over_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace berth::http
