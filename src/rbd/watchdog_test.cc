#include "rbd/watchdog.h"

#include <gtest/gtest.h>

#include <future>
#include <optional>

namespace berth::rbd {
namespace {

using std::chrono::milliseconds;

TEST(WatchdogTest, ReportsWhatDoesNotEndInTime) {
  std::promise<void> late;
  auto is_late = late.get_future();
  Watchdog watchdog(milliseconds(1), [&late] { late.set_value(); });
  const Watchdog::Watch watch(watchdog);
  EXPECT_EQ(is_late.wait_for(std::chrono::seconds(30)), std::future_status::ready);
}

TEST(WatchdogTest, ReportsNothingThatEnded) {
  bool late = false;
  {
    Watchdog watchdog(std::chrono::hours(1), [&late] { late = true; });
    for (int i = 0; i < 100; ++i) const Watchdog::Watch watch(watchdog);
  }
  EXPECT_FALSE(late);
}

// The one that hangs is not the first, and others come and go meanwhile.
TEST(WatchdogTest, ReportsOneOfManyThatHangs) {
  std::promise<void> late;
  auto is_late = late.get_future();
  Watchdog watchdog(milliseconds(20), [&late] { late.set_value(); });
  std::optional<Watchdog::Watch> first(std::in_place, watchdog);
  const Watchdog::Watch hangs(watchdog);
  first.reset();
  while (is_late.wait_for(milliseconds(0)) != std::future_status::ready) {
    const Watchdog::Watch passes(watchdog);
    if (is_late.wait_for(milliseconds(1)) == std::future_status::ready) break;
  }
}

}  // namespace
}  // namespace berth::rbd
