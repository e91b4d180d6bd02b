// For tests: ASSERT_OK ends the test unless a Status, or that of a StatusOr, is OK, and prints the
// failure.
#pragma once

#include <gtest/gtest.h>

#include "base/status.h"

#define ASSERT_OK(expr)                                                    \
  do {                                                                     \
    const ::berth::base::Status ok_status = ::berth::base::AsStatus(expr); \
    ASSERT_TRUE(ok_status.ok()) << ::berth::base::ToString(ok_status);     \
  } while (false)
