// Sends a streamed answer from the caller's thread, which blocks until the kernel has each piece.
//
// A slow client therefore blocks the thread that serves it, and the queue of bytes stays short. Not
// thread-safe: one thread uses it. It sets the exchange's callbacks (OnOver, OnDrained), so no
// other code may set them.
#pragma once

#include <memory>
#include <string_view>

#include "base/mutex.h"
#include "http/exchange.h"

namespace berth::http {

class BlockingStream {
 public:
  explicit BlockingStream(std::shared_ptr<Exchange> exchange);

  // Sends the answer's head, once; further calls do nothing.
  void Start(const Response& head);
  bool started() const { return started_; }
  // Sends `bytes` as one chunk and returns when the kernel has them. Returns false if the client is
  // gone, or if it read nothing for longer than Limits::pause.
  bool Send(std::string_view bytes);
  // Ends the answer. If End was not called, the destructor breaks the connection, so that the
  // client sees that the answer is incomplete.
  void End();
  ~BlockingStream();
  BlockingStream(const BlockingStream&) = delete;
  BlockingStream& operator=(const BlockingStream&) = delete;

 private:
  struct State {  // shared with the callbacks, which may run after this object is gone
    base::Mutex mutex;
    base::CondVar changed;
    bool drained ABSL_GUARDED_BY(mutex) = false;
    bool over ABSL_GUARDED_BY(mutex) = false;
  };

  const std::shared_ptr<Exchange> exchange_;
  const std::shared_ptr<State> state_;
  bool started_ = false;
};

}  // namespace berth::http
