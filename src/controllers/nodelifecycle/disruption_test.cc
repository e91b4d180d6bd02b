#include "controllers/nodelifecycle/disruption.h"

#include <gtest/gtest.h>

namespace berth::controllers::nodelifecycle {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(DisruptionTest, AZonesStateFollowsFromHowManyAreDown) {
  const struct {
    ZoneCount zone;
    ZoneState state;
  } cases[] = {
      {{.ready = 0, .not_ready = 0}, ZoneState::kNormal},
      {{.ready = 3, .not_ready = 1}, ZoneState::kNormal},
      {{.ready = 1, .not_ready = 2}, ZoneState::kNormal},   // two are no disruption
      {{.ready = 3, .not_ready = 3}, ZoneState::kNormal},   // half
      {{.ready = 2, .not_ready = 3}, ZoneState::kPartial},  // 60 %
      {{.ready = 9, .not_ready = 11}, ZoneState::kPartial},
      {{.ready = 0, .not_ready = 1}, ZoneState::kFull},
  };
  for (const auto& one : cases) {
    EXPECT_EQ(StateOf(one.zone), one.state) << one.zone.ready << "/" << one.zone.not_ready;
  }
}

TEST(DisruptionTest, PartlyDownZonesEvictSlowlyOrNotAtAll) {
  EXPECT_EQ(EvictionRate({.ready = 9, .not_ready = 1}, false), 0.1);
  EXPECT_EQ(EvictionRate({.ready = 2, .not_ready = 3}, false), 0);
  EXPECT_EQ(EvictionRate({.ready = 20, .not_ready = 40}, false), 0.01);
  // A whole zone is down and others are not: its nodes are lost.
  EXPECT_EQ(EvictionRate({.ready = 0, .not_ready = 3}, false), 0.1);
  EXPECT_EQ(EvictionRate({.ready = 0, .not_ready = 3}, true), 0);
}

TEST(DisruptionTest, TheLimiterSavesUpOneTokenAndEachZoneHasItsOwn) {
  EvictionLimiter limiter;
  const EvictionLimiter::Time start{};
  EXPECT_EQ(limiter.TakeToken("a", 0.1, start), milliseconds(0));
  EXPECT_EQ(limiter.TakeToken("a", 0.1, start + seconds(4)), milliseconds(6000));
  EXPECT_EQ(limiter.TakeToken("b", 0.1, start + seconds(4)), milliseconds(0));
  EXPECT_EQ(limiter.TakeToken("a", 0.1, start + seconds(100)), milliseconds(0));
  EXPECT_EQ(limiter.TakeToken("a", 0.1, start + seconds(100)), milliseconds(10000));
  EXPECT_LT(limiter.TakeToken("a", 0, start + seconds(200)), milliseconds(0));
}

}  // namespace
}  // namespace berth::controllers::nodelifecycle
