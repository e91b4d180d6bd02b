#include "store/record_cache.h"

#include <gtest/gtest.h>

namespace berth::store {
namespace {

Record RecordOf(const std::string& key, const std::string& value, Revision revision) {
  return {.key = key, .value = std::make_shared<const std::string>(value), .revision = revision};
}

Change Updated(const std::string& key, const std::string& value, Revision revision) {
  return {.type = Change::Type::kUpdated,
          .record = RecordOf(key, value, revision),
          .previous = nullptr};
}

TEST(RecordCache, ShowsWhatWasRead) {
  RecordCache cache;
  EXPECT_FALSE(cache.Find("/pods/a").has_value());
  cache.KeepRecord(RecordOf("/pods/a", "1", 1), cache.BeginRead());
  EXPECT_EQ(*cache.Find("/pods/a")->value, "1");
  EXPECT_FALSE(cache.Find("/pods/b").has_value());
}

TEST(RecordCache, FollowsCommits) {
  RecordCache cache;
  cache.KeepRecord(RecordOf("/pods/a", "1", 1), cache.BeginRead());
  const Change update = Updated("/pods/a", "2", 2);
  cache.UpdateRecords({&update, 1});
  EXPECT_EQ(*cache.Find("/pods/a")->value, "2");
  EXPECT_EQ(cache.Find("/pods/a")->revision, 2);
  Change gone = Updated("/pods/a", "2", 3);
  gone.type = Change::Type::kDeleted;
  cache.UpdateRecords({&gone, 1});
  EXPECT_FALSE(cache.Find("/pods/a").has_value());
}

TEST(RecordCache, WhatWasReadBeforeACommitIsNotKeptAfterIt) {
  RecordCache cache;
  const uint64_t begun = cache.BeginRead();
  const Change update = Updated("/pods/a", "2", 2);
  cache.UpdateRecords({&update, 1});
  cache.KeepRecord(RecordOf("/pods/a", "1", 1), begun);
  EXPECT_FALSE(cache.Find("/pods/a").has_value());
}

TEST(RecordCache, IsBounded) {
  RecordCache cache;
  cache.KeepRecord(RecordOf("/pods/large", std::string(1 << 20, 'x'), 1), cache.BeginRead());
  EXPECT_FALSE(cache.Find("/pods/large").has_value());
  int kept = 0;
  for (int i = 0; i < 10'000; ++i) {
    cache.KeepRecord(RecordOf(fmt::format("/pods/{}", i), "1", 1), cache.BeginRead());
  }
  for (int i = 0; i < 10'000; ++i) kept += cache.Find(fmt::format("/pods/{}", i)).has_value();
  EXPECT_LE(kept, 256);
  cache.KeepRecord(RecordOf("/pods/a", "1", 1), cache.BeginRead());
  const Change grown = Updated("/pods/a", std::string(1 << 20, 'x'), 2);
  cache.UpdateRecords({&grown, 1});
  EXPECT_FALSE(cache.Find("/pods/a").has_value());
}

}  // namespace
}  // namespace berth::store
