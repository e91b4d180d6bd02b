// What a request is bound to down to the moment at which it is sent, however long it has waited for
// its turn, for a connection, or for the server to take it: whether it may be sent still, and how
// long an answer is then waited for.
//
// Of the thread that makes the request, for as long as the guard lives; borrows the function.
#pragma once

#include <chrono>
#include <functional>

#include "base/status.h"

namespace berth::kube {

class SendGuard {
 public:
  // `send_time` bounds each sending; 0: the guard says nothing.
  SendGuard(const std::function<base::Status()>& may_send, std::chrono::milliseconds send_time);
  ~SendGuard();
  SendGuard(const SendGuard&) = delete;
  SendGuard& operator=(const SendGuard&) = delete;

  // Of this thread; null: none.
  static const SendGuard* Current();

  // Not OK if nothing may be sent any more.
  base::Status Check() const;
  std::chrono::steady_clock::time_point Until(std::chrono::steady_clock::time_point deadline) const;

 private:
  const std::function<base::Status()>& may_send_;
  const std::chrono::milliseconds send_time_;
  const SendGuard* const outer_;
};

}  // namespace berth::kube
