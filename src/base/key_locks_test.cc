#include "base/key_locks.h"

#include <gtest/gtest.h>

#include <future>
#include <string>
#include <thread>
#include <vector>

namespace berth::base {
namespace {

TEST(KeyLocksTest, TheSecondCallIsAborted) {
  KeyLocks locks;
  auto first = locks.LockExclusive("a");
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(locks.LockExclusive("a").status().code(), StatusCode::kAborted);
  EXPECT_EQ(locks.LockShared("a").status().code(), StatusCode::kAborted);
  EXPECT_TRUE(locks.LockExclusive("b").ok());
  first->Release();
  EXPECT_TRUE(locks.LockExclusive("a").ok());
}

TEST(KeyLocksTest, TheErrorSaysWhatTheOtherCallDoes) {
  KeyLocks locks("volume");
  const auto first = locks.LockExclusive("a", "NodePublishVolume");
  ASSERT_TRUE(first.ok());
  const std::string error(Message(locks.LockExclusive("a", "NodeExpandVolume").status()));
  EXPECT_TRUE(
      error.starts_with("another call for volume 'a' is under way: NodePublishVolume since "
                        "20"))
      << error;
  EXPECT_TRUE(error.ends_with("Z")) << error;
}

TEST(KeyLocksTest, SharedHoldsKeepAnExclusiveOneOut) {
  KeyLocks locks;
  auto first = locks.LockShared("a");
  auto second = locks.LockShared("a");
  ASSERT_TRUE(first.ok() && second.ok());
  first->Release();
  EXPECT_EQ(locks.LockExclusive("a").status().code(), StatusCode::kAborted);
  second->Release();
  EXPECT_TRUE(locks.LockExclusive("a").ok());
}

TEST(KeyLocksTest, AMovedHoldStillHolds) {
  KeyLocks locks;
  KeyLocks::Hold kept;
  {
    auto hold = locks.LockExclusive("a");
    kept = *std::move(hold);
  }
  EXPECT_EQ(locks.LockExclusive("a").status().code(), StatusCode::kAborted);
  kept = KeyLocks::Hold();
  EXPECT_TRUE(locks.LockExclusive("a").ok());
}

TEST(KeyLocksTest, AWaitingCallGetsTheKeyOnceItIsReleased) {
  KeyLocks locks;
  auto first = locks.LockExclusive("a");
  ASSERT_TRUE(first.ok());
  auto second = std::async(std::launch::async, [&] {
    return locks.WaitExclusive("a", std::chrono::steady_clock::now() + std::chrono::minutes(1));
  });
  first->Release();
  const auto hold = second.get();
  ASSERT_TRUE(hold.ok()) << hold.status();
  EXPECT_EQ(locks.LockExclusive("a").status().code(), StatusCode::kAborted);
}

TEST(KeyLocksTest, CallsThatWaitWithoutADeadlineHoldAKeyOneAfterTheOther) {
  constexpr int kThreads = 4;
  constexpr int kTurns = 1000;
  KeyLocks locks;
  int turns = 0;  // only the lock guards it
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&] {
        for (int turn = 0; turn < kTurns; ++turn) {
          const KeyLocks::Hold hold = locks.WaitExclusive("a");
          const KeyLocks::Hold other = locks.WaitExclusive(std::to_string(i));
          EXPECT_EQ(locks.LockShared("a").status().code(), StatusCode::kAborted);
          ++turns;
        }
      });
    }
  }
  EXPECT_EQ(turns, kThreads * kTurns);
  EXPECT_TRUE(locks.LockExclusive("a").ok());
}

TEST(KeyLocksTest, ACallThatWaitedInVainSaysWhichKeyIsHeld) {
  KeyLocks locks("volume");
  const auto shared = locks.LockShared("a");
  const auto refused = locks.WaitExclusive("a", std::chrono::steady_clock::now());
  EXPECT_EQ(refused.status().code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(Message(refused.status()), "volume 'a' is still worked on by an earlier request");
  EXPECT_TRUE(locks.WaitExclusive("b", std::chrono::steady_clock::now()).ok());
}

}  // namespace
}  // namespace berth::base
