#include "block/key_locks.h"

#include "base/log.h"

namespace berth::block {

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

base::StatusOr<KeyLocks::Hold> KeyLocks::Take(const std::string& key, bool shared) {
  base::MutexLock lock(mutex_);
  int& holders = held_[key];
  if (holders != 0 && (!shared || holders < 0)) {
    return base::Error(base::StatusCode::kAborted, "another call for {} is under way",
                       base::Quote(key));
  }
  holders = shared ? holders + 1 : -1;
  return Hold(this, key);
}

void KeyLocks::Release(const std::string& key) {
  base::MutexLock lock(mutex_);
  const auto it = held_.find(key);
  if (it == held_.end()) return;
  it->second = it->second < 0 ? 0 : it->second - 1;
  if (it->second == 0) held_.erase(it);
}

}  // namespace berth::block
