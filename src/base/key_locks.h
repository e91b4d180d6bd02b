// Locks by key. One call holds a key alone, or several calls share it. LockExclusive and LockShared
// never wait: while a call for a volume or name runs, a second call gets ABORTED, as CSI asks
// ("Operation pending for volume"), instead of blocking a worker. The error says what the first
// call does and since when, if it gave that. WaitExclusive waits, until a deadline if it gets one.
// Thread-safe; must outlive its holds.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "base/mutex.h"
#include "base/status.h"

namespace berth::base {

class KeyLocks {
 public:
  // Holds a key, and releases it when destroyed. A default one holds nothing.
  class Hold {
   public:
    Hold() = default;
    Hold(Hold&& other) noexcept
        : locks_(std::exchange(other.locks_, nullptr)), key_(std::move(other.key_)) {}
    Hold& operator=(Hold&& other) noexcept;
    ~Hold() { Release(); }
    void Release();

   private:
    friend class KeyLocks;
    Hold(KeyLocks* locks, std::string key) : locks_(locks), key_(std::move(key)) {}
    KeyLocks* locks_ = nullptr;
    std::string key_;
  };

  // `subject` is the word that errors put before the key, such as "volume".
  explicit KeyLocks(std::string_view subject = "");

  // Locks `key` for one call alone. ABORTED, naming `key`: another call holds it. `call` names the
  // call in the errors of others.
  StatusOr<Hold> LockExclusive(const std::string& key, std::string_view call = "") {
    return Lock(key, call, /*shared=*/false);
  }
  // Locks `key` for any number of calls at once. ABORTED, naming `key`: a call holds it alone.
  StatusOr<Hold> LockShared(const std::string& key) { return Lock(key, "", /*shared=*/true); }
  // Waits until no other call holds `key`. DEADLINE_EXCEEDED, naming `key`: another call still
  // holds it at the deadline.
  StatusOr<Hold> WaitExclusive(const std::string& key,
                               std::chrono::steady_clock::time_point deadline);
  // Waits as long as another call holds `key`.
  Hold WaitExclusive(const std::string& key);

 private:
  struct Held {
    int holders = 0;   // the number of shared holds, or -1 for an exclusive one
    std::string call;  // of an exclusive one; empty: not known
    std::chrono::system_clock::time_point since;
  };

  StatusOr<Hold> Lock(const std::string& key, std::string_view call, bool shared);
  void Release(const std::string& key);

  const std::string subject_;  // empty, or ends with a space
  Mutex mutex_;
  CondVar released_;
  std::map<std::string, Held> held_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace berth::base
