// Checks just before each sending of a request whether it may still be sent, and bounds the time
// for its answer. The check comes that late, because a request may wait long for its turn, for a
// connection, or for the server.
//
// A guard applies to the requests of its own thread as long as it lives. It borrows the function.
#pragma once

#include <chrono>
#include <functional>

#include "base/status.h"

namespace berth::kube {

class SendGuard {
 public:
  // `send_time` bounds the time from each sending to the answer; 0: the guard does nothing.
  SendGuard(const std::function<base::Status()>& may_send, std::chrono::milliseconds send_time);
  ~SendGuard();
  SendGuard(const SendGuard&) = delete;
  SendGuard& operator=(const SendGuard&) = delete;

  // The guard of this thread; null: there is none.
  static const SendGuard* Current();

  // Returns the result of `may_send`; OK: a request may be sent.
  base::Status CheckMaySend() const;
  // Returns the earlier of `deadline` and `send_time` from now.
  std::chrono::steady_clock::time_point LimitDeadline(
      std::chrono::steady_clock::time_point deadline) const;

 private:
  const std::function<base::Status()>& may_send_;
  const std::chrono::milliseconds send_time_;
  const SendGuard* const outer_;
};

}  // namespace berth::kube
