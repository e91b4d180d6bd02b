// Keeps the records that were read last, for the few that nearly every request reads: the namespace
// that the request names, the node that it comes from.
//
// A reader calls Begin before it reads the database and KeepRecord with what it found. The writer
// calls Committed with what it has committed before anybody hears of it. A record that was read
// before a commit is not kept after it, so the cache never shows an older state than the database.
// Thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/mutex.h"
#include "store/store.h"

namespace berth::store {

class RecordCache {
 public:
  // The newest record at `key`, if it is kept.
  std::optional<Record> Find(std::string_view key) const;

  // Begins a read; the result is for KeepRecord.
  uint64_t Begin() const;
  void KeepRecord(const Record& record, uint64_t begun);

  void Committed(std::span<const Change> changes);

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view key) const { return std::hash<std::string_view>()(key); }
  };

  mutable base::Mutex mutex_;
  uint64_t commits_ ABSL_GUARDED_BY(mutex_) = 0;
  std::unordered_map<std::string, Record, Hash, std::equal_to<>> records_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace berth::store
