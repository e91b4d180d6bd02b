// Locks by key for which nobody waits: while a call for a volume or name runs, a second call gets
// ABORTED, as CSI asks ("Operation pending for volume"), instead of blocking a worker. Thread-safe;
// outlives its holds.
#pragma once

#include <map>
#include <string>

#include "base/mutex.h"
#include "base/status.h"

namespace berth::block {

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

  // ABORTED, naming `key`, while another holds it.
  base::StatusOr<Hold> Exclusive(const std::string& key) { return Take(key, /*shared=*/false); }
  // As above, but any number may hold it this way at once.
  base::StatusOr<Hold> Shared(const std::string& key) { return Take(key, /*shared=*/true); }

 private:
  base::StatusOr<Hold> Take(const std::string& key, bool shared);
  void Release(const std::string& key);

  base::Mutex mutex_;
  // Number of shared holds, or -1 for an exclusive one.
  std::map<std::string, int> held_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace berth::block
