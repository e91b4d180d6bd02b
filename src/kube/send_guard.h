// Conditions of a request that hold until the moment at which it is sent, however long it waits for
// its turn, for a connection, or for the server: whether it may still be sent, and how long its
// answer is awaited.
//
// A guard applies to the requests of its own thread as long as it lives; it borrows the function.
#pragma once

#include <chrono>
#include <functional>

#include "base/status.h"

namespace berth::kube {

class SendGuard {
 public:
  // `send_time` bounds each sending; 0: the guard does nothing.
  SendGuard(const std::function<base::Status()>& may_send, std::chrono::milliseconds send_time);
  ~SendGuard();
  SendGuard(const SendGuard&) = delete;
  SendGuard& operator=(const SendGuard&) = delete;

  // The guard of this thread; null: there is none.
  static const SendGuard* Current();

  // Fails if nothing may be sent any more.
  base::Status Check() const;
  std::chrono::steady_clock::time_point Until(std::chrono::steady_clock::time_point deadline) const;

 private:
  const std::function<base::Status()>& may_send_;
  const std::chrono::milliseconds send_time_;
  const SendGuard* const outer_;
};

}  // namespace berth::kube
