#include "base/workers/keyed_workers.h"

#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <filesystem>
#include <fstream>
#include <latch>
#include <set>

namespace berth::base {
namespace {

using namespace std::chrono_literals;
using Outcome = KeyedWorkers::Outcome;

KeyedWorkers::Options Quick() {
  return {.name = "test", .workers = 4, .retry_start = 20ms, .retry_max = 40ms};
}

TEST(KeyedWorkersTest, AddingAQueuedKeyAgainRunsItOnce) {
  std::atomic<int> runs{0};
  KeyedWorkers workers(Quick(), [&](const std::string&) {
    ++runs;
    return Outcome::Done();
  });
  for (int i = 0; i < 100; ++i) workers.Add("key");
  workers.Start();
  ASSERT_TRUE(workers.WaitIdle(10s));
  EXPECT_EQ(runs, 1);
}

TEST(KeyedWorkersTest, AKeyAddedWhileItRunsRunsOnceMoreAndNeverTwiceAtOnce) {
  std::atomic<int> runs{0}, running{0}, worst{0};
  std::latch inside(1), release(1);
  KeyedWorkers workers(Quick(), [&](const std::string&) {
    worst = std::max(worst.load(), ++running);
    if (++runs == 1) {
      inside.count_down();
      release.wait();
    }
    --running;
    return Outcome::Done();
  });
  workers.Start();
  workers.Add("key");
  inside.wait();
  for (int i = 0; i < 10; ++i) workers.Add("key");
  release.count_down();
  ASSERT_TRUE(workers.WaitIdle(10s));
  EXPECT_EQ(runs, 2);
  EXPECT_EQ(worst, 1);
}

TEST(KeyedWorkersTest, WhereAllWorkersHangASpareOneTakesTheNextKey) {
  std::latch hung(2), release(1), healthy(2);
  KeyedWorkers::Options options = Quick();
  options.workers = 2;
  options.max_workers = 4;
  options.patience = 10ms;
  KeyedWorkers workers(options, [&](const std::string& key) {
    if (key.starts_with("hung")) {
      hung.count_down();
      release.wait();
    } else {
      healthy.count_down();
    }
    return Outcome::Done();
  });
  workers.Start();
  workers.Add("hung-1");
  workers.Add("hung-2");
  hung.wait();
  workers.Add("healthy-1");
  workers.AddAfter("healthy-2", 30ms);
  healthy.wait();
  release.count_down();
  ASSERT_TRUE(workers.WaitIdle(10s));
}

TEST(KeyedWorkersTest, ASpareWorkerDoesNotWaitForAKeyThatIsDueLater) {
  std::latch hung(1), release(1), healthy(1);
  KeyedWorkers::Options options = Quick();
  options.workers = 1;
  options.max_workers = 2;
  options.patience = 1ms;
  KeyedWorkers workers(options, [&](const std::string& key) {
    if (key == "hung") {
      hung.count_down();
      release.wait();
    } else {
      healthy.count_down();
    }
    return Outcome::Done();
  });
  workers.Start();
  workers.AddAfter("later", 1h);
  workers.Add("hung");
  hung.wait();
  std::this_thread::sleep_for(20ms);  // all wait for what is due later
  workers.Add("healthy");
  healthy.wait();
  release.count_down();
}

TEST(KeyedWorkersTest, SpareWorkersAreBounded) {
  std::atomic<int> running{0}, worst{0};
  std::latch release(1);
  KeyedWorkers::Options options = Quick();
  options.workers = 1;
  options.max_workers = 2;
  options.patience = 1ms;
  KeyedWorkers workers(options, [&](const std::string&) {
    worst = std::max(worst.load(), ++running);
    release.wait();
    --running;
    return Outcome::Done();
  });
  workers.Start();
  for (int i = 0; i < 5; ++i) workers.Add(std::to_string(i));
  while (running < 2) std::this_thread::sleep_for(1ms);
  std::this_thread::sleep_for(20ms);  // twenty times what a third would take to start
  release.count_down();
  ASSERT_TRUE(workers.WaitIdle(10s));
  EXPECT_EQ(worst, 2);
}

// A key is "GROUP/NAME".
std::string GroupOf(const std::string& key) { return key.substr(0, key.find('/')); }

TEST(KeyedWorkersTest, AGroupWhoseWorkHangsLeavesWorkersToTheOthers) {
  std::atomic<int> hung{0};
  std::latch release(1), healthy(2);
  KeyedWorkers::Options options = Quick();
  options.workers = 8;
  options.group = GroupOf;
  KeyedWorkers workers(options, [&](const std::string& key) {
    if (key.starts_with("evil")) {
      ++hung;
      release.wait();
    } else {
      healthy.count_down();
    }
    return Outcome::Done();
  });
  workers.Start();
  for (int i = 0; i < 100; ++i) workers.Add(fmt::format("evil/{}", i));
  while (hung < 4) std::this_thread::sleep_for(1ms);
  // Both come behind many that are due, and one of them is due while nothing ends.
  workers.Add("good/now");
  workers.AddAfter("good/later", 30ms);
  for (const auto end = std::chrono::steady_clock::now() + 10s;
       !healthy.try_wait() && std::chrono::steady_clock::now() < end;) {
    std::this_thread::sleep_for(1ms);
  }
  EXPECT_TRUE(healthy.try_wait());
  EXPECT_EQ(hung, 4);
  release.count_down();
  ASSERT_TRUE(workers.WaitIdle(10s));
  EXPECT_EQ(hung, 100);
}

TEST(KeyedWorkersTest, KeysWithoutAGroupHaveAllWorkers) {
  std::latch all(4);
  KeyedWorkers::Options options = Quick();
  options.group = [](const std::string&) { return ""; };
  KeyedWorkers workers(options, [&](const std::string&) {
    all.arrive_and_wait();
    return Outcome::Done();
  });
  workers.Start();
  for (int i = 0; i < 4; ++i) workers.Add(std::to_string(i));
  EXPECT_TRUE(workers.WaitIdle(10s));
}

TEST(KeyedWorkersTest, DifferentKeysRunSideBySide) {
  std::latch both(2);
  KeyedWorkers workers(Quick(), [&](const std::string&) {
    both.arrive_and_wait();  // ends only if the other is there at the same time
    return Outcome::Done();
  });
  workers.Start();
  workers.Add("a");
  workers.Add("b");
  EXPECT_TRUE(workers.WaitIdle(10s));
}

// The threads of this process that are called so.
int ThreadsCalled(const std::string& name) {
  int count = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string comm;
    std::getline(std::ifstream(task.path() / "comm"), comm);
    count += static_cast<int>(comm == name);
  }
  return count;
}

TEST(KeyedWorkersTest, WorkersAreStartedAsKeysWait) {
  base::Mutex mutex;
  base::CondVar changed;
  int held = 0;
  bool go_on = false;
  KeyedWorkers workers({.name = "lazy-worker", .workers = 20}, [&](const std::string& key) {
    MutexLock lock(mutex);
    ++held;
    changed.NotifyAll();
    while (key != "quick" && !go_on) changed.Wait(mutex);
    return KeyedWorkers::Outcome::Done();
  });
  workers.Start();
  EXPECT_EQ(ThreadsCalled("lazy-worker"), 0);
  for (int i = 0; i < 30; ++i) {
    workers.Add("quick");
    ASSERT_TRUE(workers.WaitIdle(std::chrono::seconds(10)));
  }
  EXPECT_LE(ThreadsCalled("lazy-worker"), 2);
  const int before = held;
  for (int i = 0; i < 30; ++i) workers.Add(fmt::format("slow-{}", i));
  {
    MutexLock lock(mutex);
    while (held < before + 20) {
      ASSERT_TRUE(
          changed.WaitUntil(mutex, std::chrono::steady_clock::now() + std::chrono::seconds(10)));
    }
    go_on = true;
    changed.NotifyAll();
  }
  ASSERT_TRUE(workers.WaitIdle(std::chrono::seconds(10)));
  EXPECT_EQ(held, before + 30);
  EXPECT_EQ(ThreadsCalled("lazy-worker"), 20);
}

// Waits until `count` threads have the name. False: there is another number after 10 seconds.
bool AwaitThreadsCalled(const std::string& name, int count) {
  const auto deadline = std::chrono::steady_clock::now() + 10s;
  while (ThreadsCalled(name) != count) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

TEST(KeyedWorkersTest, WorkersOfABurstEndAndComeBackWithTheNextOne) {
  KeyedWorkers::Options options{.name = "burst-worker", .workers = 8, .idle_time = 1ms};
  std::barrier together(8);
  KeyedWorkers workers(options, [&](const std::string&) {
    together.arrive_and_wait();
    return Outcome::Done();
  });
  workers.Start();
  for (int burst = 0; burst < 3; ++burst) {
    for (int i = 0; i < 8; ++i) workers.Add(fmt::format("key-{}", i));
    ASSERT_TRUE(workers.WaitIdle(10s)) << "eight keys run at once";
    EXPECT_TRUE(AwaitThreadsCalled("burst-worker", 0)) << ThreadsCalled("burst-worker");
  }
}

TEST(KeyedWorkersTest, OneWorkerStaysForAKeyThatIsDueLater) {
  std::atomic<int> runs = 0;
  KeyedWorkers workers({.name = "patient-worker", .workers = 8, .idle_time = 1ms},
                       [&](const std::string&) {
                         ++runs;
                         return Outcome::Done();
                       });
  workers.Start();
  workers.AddAfter("later", 1h);
  for (int i = 0; i < 100; ++i) workers.Add(fmt::format("key-{}", i));
  ASSERT_TRUE(workers.WaitIdle(10s));
  EXPECT_TRUE(AwaitThreadsCalled("patient-worker", 1));
  workers.AddNow("later");
  ASSERT_TRUE(workers.WaitIdle(10s));
  EXPECT_EQ(runs, 101);
}

TEST(KeyedWorkersTest, AFailureIsTriedAgainUntilItSucceeds) {
  std::atomic<int> runs{0};
  std::latch done(1);
  KeyedWorkers workers(Quick(), [&](const std::string&) {
    if (++runs < 4) return Outcome::Retry(Error(StatusCode::kUnavailable, "not yet"));
    done.count_down();
    return Outcome::Done();
  });
  workers.Start();
  workers.Add("key");
  done.wait();
  EXPECT_EQ(runs, 4);
}

TEST(KeyedWorkersTest, AFailureWithADelayOfItsOwnBacksOffFromThere) {
  std::atomic<int> runs{0};
  std::latch done(1);
  auto options = Quick();
  options.retry_start = options.retry_max = 1h;
  KeyedWorkers workers(options, [&](const std::string&) {
    if (++runs < 4) {
      return Outcome{.status = Error(StatusCode::kUnavailable, "away"), .delay = 1ms};
    }
    done.count_down();
    return Outcome::Done();
  });
  workers.Start();
  workers.Add("key");
  done.wait();
  EXPECT_EQ(runs, 4);
}

TEST(KeyedWorkersTest, AddLeavesTheBackoffAloneAndAddNowEndsIt) {
  std::atomic<int> runs{0};
  std::latch second(1);
  auto options = Quick();
  options.retry_start = options.retry_max = 1h;
  KeyedWorkers workers(options, [&](const std::string&) {
    if (++runs == 2) second.count_down();
    return runs == 1 ? Outcome::Retry(Error(StatusCode::kInternal, "first")) : Outcome::Done();
  });
  workers.Start();
  workers.Add("key");
  ASSERT_TRUE(workers.WaitIdle(10s));
  workers.Add("key");
  ASSERT_TRUE(workers.WaitIdle(10s));
  EXPECT_EQ(runs, 1);
  workers.AddNow("key");
  second.wait();
}

TEST(KeyedWorkersTest, AddNowWhileRunningBeatsTheBackoffOfAFailure) {
  std::atomic<int> runs{0};
  std::latch inside(1), release(1), second(1);
  auto options = Quick();
  options.retry_start = options.retry_max = 1h;
  KeyedWorkers workers(options, [&](const std::string&) {
    if (++runs == 2) {
      second.count_down();
      return Outcome::Done();
    }
    inside.count_down();
    release.wait();
    return Outcome::Retry(Error(StatusCode::kInternal, "first"));
  });
  workers.Start();
  workers.Add("key");
  inside.wait();
  workers.AddNow("key");
  release.count_down();
  second.wait();
}

TEST(KeyedWorkersTest, AfterRunsAgainWithoutCountingAsFailure) {
  std::atomic<int> runs{0};
  std::latch third(1);
  KeyedWorkers workers(Quick(), [&](const std::string&) {
    if (++runs == 3) {
      third.count_down();
      return Outcome::Done();
    }
    return Outcome::After(1ms);
  });
  workers.Start();
  workers.Add("key");
  third.wait();
}

TEST(KeyedWorkersTest, StopWaitsForRunningWorkAndDropsTheRest) {
  std::atomic<bool> ended{false};
  std::latch inside(1);
  auto options = Quick();
  options.workers = 1;
  std::atomic<int> runs{0};
  KeyedWorkers workers(options, [&](const std::string&) {
    ++runs;
    inside.count_down();
    std::this_thread::yield();
    ended = true;
    return Outcome::Done();
  });
  workers.Start();
  workers.Add("a");
  inside.wait();
  workers.AddAfter("b", 1h);
  workers.Stop();
  EXPECT_TRUE(ended);
  EXPECT_EQ(runs, 1);
}

}  // namespace
}  // namespace berth::base
