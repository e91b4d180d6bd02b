#include "store/record_cache.h"

namespace berth::store {

using base::MutexLock;

namespace {

constexpr size_t kMaxRecords = 256;
// The largest value that is kept. So the cache has at most 256 times 16 KiB, which is 4 MiB.
constexpr size_t kMaxBytes = 16 * 1024;

}  // namespace

std::optional<Record> RecordCache::Find(std::string_view key) const {
  MutexLock lock(mutex_);
  const auto found = records_.find(key);
  if (found == records_.end()) return std::nullopt;
  return found->second;
}

uint64_t RecordCache::BeginRead() const {
  MutexLock lock(mutex_);
  return commits_;
}

void RecordCache::KeepRecord(const Record& record, uint64_t begun) {
  if (record.value->size() > kMaxBytes) return;
  MutexLock lock(mutex_);
  if (begun != commits_) return;  // a later commit may have replaced it
  // All records are dropped, because those that are needed are soon read and kept again.
  if (records_.size() >= kMaxRecords) records_.clear();
  records_.insert_or_assign(record.key, record);
}

void RecordCache::UpdateRecords(std::span<const Change> changes) {
  MutexLock lock(mutex_);
  ++commits_;
  for (const Change& change : changes) {
    const auto found = records_.find(change.record.key);
    if (found == records_.end()) continue;
    if (change.type == Change::Type::kDeleted || change.record.value->size() > kMaxBytes) {
      records_.erase(found);
    } else {
      found->second = change.record;
    }
  }
}

}  // namespace berth::store
