// Keeps records that were read lately, because nearly every request reads the same few: the
// Namespace that it names, and the Node that it comes from.
//
// A reader calls BeginRead before it reads the database, and then KeepRecord with the record. The
// writer calls UpdateRecords with the changes that it has committed, before clients and watchers
// see them. A record that was read before a commit is not kept after it, so the cache never shows
// an older state than the database. Thread-safe.
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
  // The newest record at `key`; nullopt: it is not kept, and may exist.
  std::optional<Record> Find(std::string_view key) const;

  // Begins a read. Pass the result to KeepRecord as `begun`.
  uint64_t BeginRead() const;
  // Keeps `record`, unless it is large or changes were committed since `begun`.
  void KeepRecord(const Record& record, uint64_t begun);

  // Replaces or drops the kept records that the committed `changes` change.
  void UpdateRecords(std::span<const Change> changes);

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
