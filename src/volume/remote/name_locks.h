// Locks by name: what holds one name excludes others with that name, and no one else.
#pragma once

#include <set>
#include <string>
#include <utility>

#include "base/mutex.h"

namespace berth::volume {

class NameLocks {
 public:
  // Holds `name` as long as it lives. The constructor waits for an earlier holder.
  class Hold {
   public:
    Hold(NameLocks& locks, std::string name) : locks_(locks), name_(std::move(name)) {
      base::MutexLock lock(locks_.mutex_);
      while (!locks_.held_.insert(name_).second) locks_.freed_.Wait(locks_.mutex_);
    }
    ~Hold() {
      base::MutexLock lock(locks_.mutex_);
      locks_.held_.erase(name_);
      locks_.freed_.NotifyAll();
    }
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;

   private:
    NameLocks& locks_;
    const std::string name_;
  };

 private:
  base::Mutex mutex_;
  base::CondVar freed_;
  std::set<std::string> held_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace berth::volume
