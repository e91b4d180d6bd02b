#include "rbd/rbd_error.h"

#include <errno.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace berth::rbd {
namespace {

using base::StatusCode;
using ::testing::HasSubstr;

std::string TextOf(int result) {
  return std::string(base::Message(RbdError(result, "create image 'a'")));
}

TEST(RbdErrorTest, SaysWhatIsFullInWords) {
  EXPECT_EQ(RbdError(-ENOSPC, "a").code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(RbdError(-EDQUOT, "a").code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(TextOf(-ENOSPC), HasSubstr("create image 'a': the pool or the cluster is full"));
  EXPECT_THAT(TextOf(-EDQUOT), HasSubstr("the quota of the pool is used up"));
}

TEST(RbdErrorTest, TellsAFenceFromATimeOutAndFromALock) {
  EXPECT_EQ(RbdError(-ESHUTDOWN, "a").code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(TextOf(-ESHUTDOWN), HasSubstr("blocklist"));
  EXPECT_EQ(RbdError(-ETIMEDOUT, "a").code(), StatusCode::kDeadlineExceeded);
  EXPECT_THAT(TextOf(-ETIMEDOUT), HasSubstr("the outcome is unknown"));
  EXPECT_EQ(RbdError(-EROFS, "a").code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(RbdError(-EHOSTUNREACH, "a").code(), StatusCode::kUnavailable);
  EXPECT_EQ(RbdError(-ENOENT, "a").code(), StatusCode::kNotFound);
  EXPECT_EQ(RbdError(ENOENT, "a").code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace berth::rbd
