#include "blockexport/failure_log.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace berth::blockexport {
namespace {

TEST(FailureLogTest, LogsTheFirstFailureOfAKindAndThenOneInEachPeriod) {
  FailureLog log;
  FailureLog::Time now{};
  EXPECT_EQ(log.CountFailure("read", EIO, now), 0u);
  EXPECT_EQ(log.CountFailure("write", EIO, now), 0u);
  EXPECT_EQ(log.CountFailure("read", ENOSPC, now), 0u);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(log.CountFailure("read", EIO, now), std::nullopt);
  now += FailureLog::kPeriod;
  EXPECT_EQ(log.CountFailure("read", EIO, now), 1000u);
  EXPECT_EQ(log.CountFailure("read", EIO, now), std::nullopt);
}

TEST(FailureLogTest, HasABoundOfKinds) {
  FailureLog log;
  size_t lines = 0;
  for (int error = 1; error < 1000; ++error) {
    lines += log.CountFailure("read", error, {}).has_value() ? 1 : 0;
  }
  EXPECT_EQ(lines, FailureLog::kMostKinds + 1);
}

}  // namespace
}  // namespace berth::blockexport
