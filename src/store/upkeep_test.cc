#include "store/upkeep.h"

#include <gtest/gtest.h>

namespace berth::store {
namespace {

using std::chrono::minutes;
using Step = Upkeep::Step;

constexpr int64_t kUpkeepMiB = int64_t{1} << 20;

class UpkeepTest : public ::testing::Test {
 protected:
  static TableSize Size(int64_t pages, int64_t free_pages) {
    return {.pages = pages, .free_pages = free_pages, .page_bytes = 4096, .can_shrink = true};
  }
  Upkeep::Plan At(minutes after, Revision current, Revision removed, const TableSize& size) {
    const Upkeep::Plan plan = upkeep_.MakePlan(begin_ + after, current, removed, size);
    upkeep_.Finish(begin_ + after, plan.step);
    return plan;
  }

  const Upkeep::Time begin_{std::chrono::hours(1)};
  Upkeep upkeep_{{.small_file = 8 * kUpkeepMiB, .keep_history = minutes(5)}};
};

TEST_F(UpkeepTest, OldHistoryOfALargeFileIsCompactedAndThenFreePagesAreTakenOut) {
  EXPECT_EQ(At(minutes(0), 700, 0, Size(16'000, 0)).step, Step::kNone);
  EXPECT_EQ(At(minutes(4), 900, 0, Size(16'000, 0)).step, Step::kNone) << "none of it is old yet";
  const Upkeep::Plan old = At(minutes(6), 950, 0, Size(16'000, 0));
  EXPECT_EQ(old.step, Step::kCompact);
  EXPECT_EQ(old.compact_to, 700);
  EXPECT_LT(upkeep_.next(), begin_ + minutes(6) + std::chrono::seconds(1))
      << "the next step is soon";
  const Upkeep::Plan shrink = At(minutes(6), 950, 700, Size(16'000, 15'000));
  EXPECT_EQ(shrink.step, Step::kShrink);
  EXPECT_GT(shrink.pages, 0);
  EXPECT_LE(shrink.pages, 16) << "writes wait for a step, some of 64 pages for 35 ms";
  EXPECT_EQ(At(minutes(6), 950, 700, Size(1'500, 500)).step, Step::kEnd);
  EXPECT_EQ(At(minutes(6), 950, 700, Size(1'500, 500)).step, Step::kNone);
  EXPECT_GT(upkeep_.next(), begin_ + minutes(6) + std::chrono::seconds(1));
}

TEST_F(UpkeepTest, ASmallFileKeepsItsHistory) {
  for (int minute = 0; minute < 60; ++minute) {
    EXPECT_EQ(At(minutes(minute), 1000 + minute, 0, Size(1'000, 0)).step, Step::kNone) << minute;
  }
}

TEST_F(UpkeepTest, ADatabaseThatCannotShrinkIsLeftAlone) {
  TableSize size = Size(1'900, 1'800);
  size.can_shrink = false;
  EXPECT_EQ(At(minutes(0), 10, 0, size).step, Step::kNone);
}

}  // namespace
}  // namespace berth::store
