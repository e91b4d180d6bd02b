#include "base/workers/worker_pool.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <barrier>
#include <latch>
#include <vector>

#include "base/unique_fd.h"
#include "base/workers/fake_thread_limit.h"

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

TEST(WorkerPoolTest, ThreadsThatHaveNothingToDoEndAndOthersComeForTheNextTask) {
  WorkerPool pool({.name = "test", .max_threads = 2, .idle_time = std::chrono::milliseconds(1)});
  std::vector<UniqueFd> threads;  // of the first tasks
  Mutex mutex;
  std::barrier together(3);
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(pool.Post([&] {
      const int thread = open("/proc/thread-self/comm", O_RDONLY | O_CLOEXEC);
      {
        MutexLock lock(mutex);
        threads.emplace_back(thread);
      }
      together.arrive_and_wait();
    }));
  }
  together.arrive_and_wait();
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  for (const UniqueFd& thread : threads) {
    char name[16];
    // The file of a thread that has ended cannot be read.
    while (pread(thread.get(), name, sizeof name, 0) > 0) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline) << "a thread does not end";
      std::this_thread::yield();
    }
  }
  std::latch ran(1);
  ASSERT_TRUE(pool.Post([&] { ran.count_down(); }));
  ran.wait();
}

TEST(WorkerPoolTest, ATaskForWhichNoThreadCanBeStartedIsRefused) {
  WorkerPool pool({.name = "test", .max_threads = 2});
  {
    const NoRoomForThreads full;
    EXPECT_FALSE(pool.Post([] {}));
  }
  std::latch started(1);
  std::latch go_on(1);
  ASSERT_TRUE(pool.Post([&] {
    started.count_down();
    go_on.wait();
  }));
  started.wait();
  std::latch ran(1);
  {
    const NoRoomForThreads full;
    EXPECT_TRUE(pool.Post([&] { ran.count_down(); })) << "the thread that is there runs it";
  }
  go_on.count_down();
  ran.wait();
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
