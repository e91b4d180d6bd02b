#include "platform/errno.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace berth::platform {
namespace {

using base::StatusCode;

TEST(ErrnoError, SaysWhatFailedAndWhy) {
  EXPECT_EQ(base::ToString(ErrnoError(EBUSY, "unmount '/x'")),
            "FAILED_PRECONDITION: unmount '/x': Device or resource busy");
}

TEST(ErrnoError, GivesTheCodeThatFits) {
  EXPECT_EQ(ErrnoError(ENOENT, "x").code(), StatusCode::kNotFound);
  EXPECT_EQ(ErrnoError(EEXIST, "x").code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(ErrnoError(EACCES, "x").code(), StatusCode::kPermissionDenied);
  EXPECT_EQ(ErrnoError(EPERM, "x").code(), StatusCode::kPermissionDenied);
  EXPECT_EQ(ErrnoError(ENOSPC, "x").code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(ErrnoError(EDQUOT, "x").code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(ErrnoError(EINVAL, "x").code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(ErrnoError(ETIMEDOUT, "x").code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(ErrnoError(ECONNREFUSED, "x").code(), StatusCode::kUnavailable);
  EXPECT_EQ(ErrnoError(EIO, "x").code(), StatusCode::kInternal);
}

TEST(ErrnoError, SurvivesANumberThatHasNoText) {
  EXPECT_EQ(base::Message(ErrnoError(99999, "x")), "x: error 99999");
}

}  // namespace
}  // namespace berth::platform
