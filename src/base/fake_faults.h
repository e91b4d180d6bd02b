// Switches fault points of the test's own process on, from its construction to its destruction.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>

#include "base/fault.h"

namespace berth::base {

class FakeFaults {
 public:
  // `text` as in BERTH_FAULTS.
  explicit FakeFaults(const char* text) {
    setenv("BERTH_FAULTS", text, 1);
    const Status init = InitFaultPoints();
    EXPECT_TRUE(init.ok()) << init;
  }
  ~FakeFaults() {
    unsetenv("BERTH_FAULTS");
    EXPECT_TRUE(InitFaultPoints().ok());
  }
  FakeFaults(const FakeFaults&) = delete;
  FakeFaults& operator=(const FakeFaults&) = delete;
};

}  // namespace berth::base
