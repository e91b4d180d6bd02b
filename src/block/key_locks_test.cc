#include "block/key_locks.h"

#include <gtest/gtest.h>

namespace berth::block {
namespace {

using base::StatusCode;

TEST(KeyLocksTest, TheSecondCallIsAborted) {
  KeyLocks locks;
  auto first = locks.Exclusive("a");
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(locks.Exclusive("a").status().code(), StatusCode::kAborted);
  EXPECT_EQ(locks.Shared("a").status().code(), StatusCode::kAborted);
  EXPECT_TRUE(locks.Exclusive("b").ok());
  first->Release();
  EXPECT_TRUE(locks.Exclusive("a").ok());
}

TEST(KeyLocksTest, SharedHoldsKeepAnExclusiveOneOut) {
  KeyLocks locks;
  auto first = locks.Shared("a");
  auto second = locks.Shared("a");
  ASSERT_TRUE(first.ok() && second.ok());
  first->Release();
  EXPECT_EQ(locks.Exclusive("a").status().code(), StatusCode::kAborted);
  second->Release();
  EXPECT_TRUE(locks.Exclusive("a").ok());
}

TEST(KeyLocksTest, AMovedHoldStillHolds) {
  KeyLocks locks;
  KeyLocks::Hold kept;
  {
    auto hold = locks.Exclusive("a");
    kept = *std::move(hold);
  }
  EXPECT_EQ(locks.Exclusive("a").status().code(), StatusCode::kAborted);
  kept = KeyLocks::Hold();
  EXPECT_TRUE(locks.Exclusive("a").ok());
}

}  // namespace
}  // namespace berth::block
