#include "base/key_locks.h"

#include <array>
#include <ctime>

#include "base/log.h"

namespace berth::base {
namespace {

std::string FormatTime(std::chrono::system_clock::time_point time) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(time);
  std::tm utc = {};
  gmtime_r(&seconds, &utc);
  std::array<char, 32> text{};
  return std::string(text.data(), strftime(text.data(), text.size(), "%FT%TZ", &utc));
}

}  // namespace

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

StatusOr<KeyLocks::Hold> KeyLocks::Lock(const std::string& key, std::string_view call,
                                        bool shared) {
  MutexLock lock(mutex_);
  Held& held = held_[key];
  if (held.holders != 0 && (!shared || held.holders < 0)) {
    const std::string what =
        held.call.empty() ? "" : fmt::format(": {} since {}", held.call, FormatTime(held.since));
    return Error(StatusCode::kAborted, "another call for {}{} is under way{}", subject_, Quote(key),
                 what);
  }
  held = {.holders = shared ? held.holders + 1 : -1,
          .call = std::string(call),
          .since = std::chrono::system_clock::now()};
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
  held_[key].holders = -1;
  return Hold(this, key);
}

KeyLocks::Hold KeyLocks::WaitExclusive(const std::string& key) {
  MutexLock lock(mutex_);
  while (held_.contains(key)) released_.Wait(mutex_);
  held_[key].holders = -1;
  return Hold(this, key);
}

void KeyLocks::Release(const std::string& key) {
  MutexLock lock(mutex_);
  const auto it = held_.find(key);
  if (it == held_.end()) return;
  int& holders = it->second.holders;
  holders = holders < 0 ? 0 : holders - 1;
  if (holders != 0) return;
  held_.erase(it);
  released_.NotifyAll();
}

}  // namespace berth::base
