// Locks by key, of which one is held by one call, or shared by several. Exclusive and Shared never
// wait: a second call for a volume or name in flight is told ABORTED, as CSI asks ("Operation
// pending for volume"), instead of holding a worker. WaitExclusive waits with a deadline.
// Thread-safe; outlives its holds.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <utility>

#include "base/mutex.h"
#include "base/status.h"

namespace berth::base {

class KeyLocks {
 public:
  // Releases its key when destroyed.
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

  // `subject`: what failures call the thing that a key names, such as "volume".
  explicit KeyLocks(std::string_view subject = "");

  // ABORTED, naming `key`, while another holds it.
  StatusOr<Hold> Exclusive(const std::string& key) { return Lock(key, /*shared=*/false); }
  // As above, but any number may hold it this way at once.
  StatusOr<Hold> Shared(const std::string& key) { return Lock(key, /*shared=*/true); }
  // DEADLINE_EXCEEDED, naming `key`: another still holds it then.
  StatusOr<Hold> WaitExclusive(const std::string& key,
                               std::chrono::steady_clock::time_point deadline);

 private:
  StatusOr<Hold> Lock(const std::string& key, bool shared);
  void Release(const std::string& key);

  const std::string subject_;  // ends with a space, unless it is empty
  Mutex mutex_;
  CondVar released_;
  // Number of shared holds, or -1 for an exclusive one.
  std::map<std::string, int> held_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace berth::base
