#include "csidriver/worker_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>

namespace berth::csidriver {
namespace {

TEST(WorkerPoolTest, WhatWasTakenRunsToItsEnd) {
  std::atomic<int> ran = 0;
  {
    WorkerPool pool(2, 100);
    for (int i = 0; i < 50; ++i) ASSERT_TRUE(pool.Submit([&] { ++ran; }));
  }
  EXPECT_EQ(ran, 50);
}

TEST(WorkerPoolTest, AFullQueueRefuses) {
  std::latch started(1);
  std::latch go_on(1);
  WorkerPool pool(1, 1);
  ASSERT_TRUE(pool.Submit([&] {
    started.count_down();
    go_on.wait();
  }));
  started.wait();
  EXPECT_TRUE(pool.Submit([] {}));
  EXPECT_FALSE(pool.Submit([] {}));
  go_on.count_down();
}

}  // namespace
}  // namespace berth::csidriver
