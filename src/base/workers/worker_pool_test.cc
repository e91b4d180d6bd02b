#include "base/workers/worker_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>

namespace berth::base {
namespace {

TEST(WorkerPoolTest, WhatWasTakenRunsToItsEnd) {
  std::atomic<int> ran = 0;
  {
    WorkerPool pool({.name = "test", .max_threads = 2, .max_queued = 100});
    for (int i = 0; i < 50; ++i) ASSERT_TRUE(pool.Post([&] { ++ran; }));
  }
  EXPECT_EQ(ran, 50);
}

TEST(WorkerPoolTest, AFullQueueRefuses) {
  std::latch started(1);
  std::latch go_on(1);
  WorkerPool pool({.name = "test", .max_threads = 1, .max_queued = 1});
  ASSERT_TRUE(pool.Post([&] {
    started.count_down();
    go_on.wait();
  }));
  started.wait();
  EXPECT_TRUE(pool.Post([] {}));
  EXPECT_FALSE(pool.Post([] {}));
  go_on.count_down();
}

TEST(WorkerPoolTest, AStopDropsWhatWaitsAndTakesNoMore) {
  std::latch started(1);
  std::latch go_on(1);
  std::atomic<bool> ran = false;
  WorkerPool pool({.name = "test", .max_threads = 1});
  // What waits knows when it is dropped: the one that runs ends only then.
  auto dropped = std::shared_ptr<void>(nullptr, [&](void*) { go_on.count_down(); });
  ASSERT_TRUE(pool.Post([&] {
    started.count_down();
    go_on.wait();
  }));
  started.wait();
  auto task = [&ran, dropped] { ran = true; };
  ASSERT_TRUE(pool.Post(std::move(task)));
  dropped.reset();
  pool.Stop();
  EXPECT_FALSE(ran);
  EXPECT_FALSE(pool.Post([] {}));
  pool.Stop();
}

}  // namespace
}  // namespace berth::base
