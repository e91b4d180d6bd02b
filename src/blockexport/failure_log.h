// Limits the log lines of a storage that fails, because each request of its users then fails and
// the log may be in memory (/run).
//
// Thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "base/mutex.h"

namespace berth::blockexport {

class FailureLog {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::seconds kPeriod{10};
  static constexpr size_t kMostKinds = 32;

  // Counts a failure of the operation with an errno. Returns a value if it is to be logged: the
  // first failure of its kind, and then one in each kPeriod. The value is the number of failures of
  // this kind that were not logged before it. Kinds after kMostKinds count as one.
  std::optional<uint64_t> CountFailure(const std::string& operation, int error, Time now) {
    base::MutexLock lock(mutex_);
    std::pair<std::string, int> kind(operation, error);
    if (kinds_.size() >= kMostKinds && !kinds_.contains(kind)) kind = {};
    const auto [entry, first] = kinds_.try_emplace(kind, Kind{.logged = now});
    Kind& known = entry->second;
    if (!first && now - known.logged < kPeriod) {
      ++known.omitted;
      return std::nullopt;
    }
    known.logged = now;
    return std::exchange(known.omitted, 0);
  }

 private:
  struct Kind {
    Time logged;
    uint64_t omitted = 0;
  };
  base::Mutex mutex_;
  std::map<std::pair<std::string, int>, Kind> kinds_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace berth::blockexport
