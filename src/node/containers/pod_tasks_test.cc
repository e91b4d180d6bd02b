#include "node/containers/pod_tasks.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>

namespace berth::node {
namespace {

// A tenant chooses how long his containers' stops, hooks and pulls take.
TEST(PodTasksTest, ANamespaceWhoseTasksDoNotEndLeavesThreadsToTheOthers) {
  std::atomic<int> hung{0};
  std::latch half(4), release(1), healthy(2), last(20);
  PodTasks tasks(8);
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(tasks.RunTask(fmt::format("evil-{}", i), "evil", [&](std::stop_token) {
      if (++hung <= 4) half.count_down();
      release.wait();
      last.count_down();
    }));
  }
  half.wait();
  for (const char* ns : {"a", "b"}) {
    ASSERT_TRUE(tasks.RunTask(ns, ns, [&](std::stop_token) { healthy.count_down(); }));
  }
  for (const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
       !healthy.try_wait() && std::chrono::steady_clock::now() < end;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_TRUE(healthy.try_wait());
  EXPECT_EQ(hung, 4);
  release.count_down();
  last.wait();
}

}  // namespace
}  // namespace berth::node
