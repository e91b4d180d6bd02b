#include "csidriver/controller.h"

#include <gtest/gtest.h>

#include "base/ids.h"

namespace berth::csidriver {
namespace {

std::vector<block::Record> Records(int count) {
  std::vector<block::Record> records;
  for (int i = 0; i < count; ++i) {
    records.push_back({.id = fmt::format("00000000-0000-0000-0000-{:012}", i)});
  }
  return records;
}

TEST(PageTest, PagesCoverAllOnceEvenWhileEntriesGo) {
  std::vector<block::Record> all = Records(7);
  std::vector<std::string> seen;
  std::string token;
  do {
    std::string next;
    const auto page = MakePage(all, 3, token, next);
    ASSERT_TRUE(page.ok()) << page.status();
    for (const block::Record& record : *page) seen.push_back(record.id);
    // The very entry that the token names is deleted between two calls.
    if (!next.empty()) std::erase_if(all, [&](const auto& record) { return record.id == next; });
    token = next;
  } while (!token.empty());
  ASSERT_EQ(seen.size(), 7u);
  EXPECT_TRUE(std::ranges::is_sorted(seen));
}

TEST(PageTest, WithoutALimitEverythingFitsOnOnePage) {
  std::string next;
  EXPECT_EQ(MakePage(Records(5), 0, "", next)->size(), 5u);
  EXPECT_TRUE(next.empty());
}

TEST(PageTest, AForeignTokenIsAborted) {
  std::string next;
  EXPECT_EQ(MakePage(Records(5), 0, "17", next).status().code(), base::StatusCode::kAborted);
}

}  // namespace
}  // namespace berth::csidriver
