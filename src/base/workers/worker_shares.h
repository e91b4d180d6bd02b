// Divides workers between groups of work, which are tenants as a rule.
#pragma once

#include <map>
#include <string>

#include "base/mutex.h"

namespace berth::base {

// A group takes a worker only while it has fewer than are free, so alone it gets half of them, and
// work of it that hangs leaves workers to the others. The group "" is not limited. Not thread-safe.
class WorkerShares {
 public:
  explicit WorkerShares(int workers) : free_(workers) {}
  bool MayBegin(const std::string& group) const {
    const auto found = running_.find(group);
    return group.empty() || found == running_.end() || found->second < free_;
  }
  void Begin(const std::string& group) {
    ++running_[group];
    --free_;
  }
  void End(const std::string& group) {
    if (--running_[group] == 0) running_.erase(group);
    ++free_;
  }

 private:
  int free_;
  std::map<std::string, int> running_;  // by group
};

// Remembers the groups of keys, for KeyedWorkers::Options::group. Thread-safe; it may be called
// while any other lock is held.
class WorkGroups {
 public:
  // Remembers the group of `key`; "": forgets it.
  void Set(const std::string& key, const std::string& group) {
    MutexLock lock(mutex_);
    if (group.empty()) {
      groups_.erase(key);
    } else {
      groups_[key] = group;
    }
  }

  // The group of `key`. All keys without one are one group.
  std::string Find(const std::string& key) const {
    MutexLock lock(mutex_);
    const auto found = groups_.find(key);
    return found == groups_.end() ? "(unknown)" : found->second;
  }

 private:
  mutable Mutex mutex_;
  std::map<std::string, std::string> groups_ ABSL_GUARDED_BY(mutex_);  // by key
};

}  // namespace berth::base
