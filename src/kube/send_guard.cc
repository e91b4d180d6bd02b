#include "kube/send_guard.h"

#include <algorithm>

namespace berth::kube {

namespace {
thread_local const SendGuard* current = nullptr;
}  // namespace

SendGuard::SendGuard(const std::function<base::Status()>& may_send,
                     std::chrono::milliseconds send_time)
    : may_send_(may_send), send_time_(send_time), outer_(current) {
  if (send_time.count() > 0) current = this;
}

SendGuard::~SendGuard() { current = outer_; }

const SendGuard* SendGuard::Current() { return current; }

base::Status SendGuard::CheckMaySend() const { return may_send_(); }

std::chrono::steady_clock::time_point SendGuard::LimitDeadline(
    std::chrono::steady_clock::time_point deadline) const {
  return std::min(deadline, std::chrono::steady_clock::now() + send_time_);
}

}  // namespace berth::kube
