#include "platform/limits.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

namespace berth::platform {
namespace {

TEST(LimitsTest, TheSoftLimitOfDescriptorsBecomesTheHardOne) {
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit low = before;
  low.rlim_cur = 64;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  EXPECT_TRUE(RaiseDescriptorLimit().ok());
  rlimit after = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &after), 0);
  EXPECT_EQ(after.rlim_cur, before.rlim_max);
}

}  // namespace
}  // namespace berth::platform
