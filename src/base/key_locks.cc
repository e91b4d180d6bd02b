#include "base/key_locks.h"

#include "base/log.h"

namespace berth::base {

KeyLocks::Hold& KeyLocks::Hold::operator=(Hold&& other) noexcept {
  if (this != &other) {
    Release();
    locks_ = std::exchange(other.locks_, nullptr);
    key_ = std::move(other.key_);
  }
  return *this;
}

void KeyLocks::Hold::Release() {
  if (locks_ != nullptr) std::exchange(locks_, nullptr)->Release(key_);
}

KeyLocks::KeyLocks(std::string_view subject)
    : subject_(subject.empty() ? "" : fmt::format("{} ", subject)) {}

StatusOr<KeyLocks::Hold> KeyLocks::Lock(const std::string& key, bool shared) {
  MutexLock lock(mutex_);
  int& holders = held_[key];
  if (holders != 0 && (!shared || holders < 0)) {
    return Error(StatusCode::kAborted, "another call for {}{} is under way", subject_, Quote(key));
  }
  holders = shared ? holders + 1 : -1;
  return Hold(this, key);
}

StatusOr<KeyLocks::Hold> KeyLocks::WaitExclusive(const std::string& key,
                                                 std::chrono::steady_clock::time_point deadline) {
  MutexLock lock(mutex_);
  while (held_.contains(key)) {
    if (!released_.WaitUntil(mutex_, deadline) && held_.contains(key)) {
      return Error(StatusCode::kDeadlineExceeded, "{}{} is still worked on by an earlier request",
                   subject_, Quote(key));
    }
  }
  held_[key] = -1;
  return Hold(this, key);
}

KeyLocks::Hold KeyLocks::WaitExclusive(const std::string& key) {
  MutexLock lock(mutex_);
  while (held_.contains(key)) released_.Wait(mutex_);
  held_[key] = -1;
  return Hold(this, key);
}

void KeyLocks::Release(const std::string& key) {
  MutexLock lock(mutex_);
  const auto it = held_.find(key);
  if (it == held_.end()) return;
  it->second = it->second < 0 ? 0 : it->second - 1;
  if (it->second != 0) return;
  held_.erase(it);
  released_.NotifyAll();
}

}  // namespace berth::base
