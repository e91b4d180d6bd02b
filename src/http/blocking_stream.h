// Sends a streamed answer from a thread of its own, which waits until each piece is on its way.
//
// So a slow client holds up the thread that serves it, and no memory fills up. For one thread; the
// exchange's callbacks are its own.
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
  // Sends `bytes` as one chunk and returns when the kernel has them. False: the client is gone, or
  // took nothing for longer than the server waits (Limits::stall).
  bool Send(std::string_view bytes);
  // Ends the answer; without it the client is told that the answer broke off.
  void End();
  ~BlockingStream();
  BlockingStream(const BlockingStream&) = delete;
  BlockingStream& operator=(const BlockingStream&) = delete;

 private:
  struct State {  // shared with the callbacks, which may come late
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
