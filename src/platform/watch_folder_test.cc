#include "platform/watch_folder.h"

#include <gtest/gtest.h>
#include <stdio.h>
#include <unistd.h>

#include "base/mutex.h"
#include "platform/durable_file.h"
#include "platform/fake_temp_folder.h"

namespace berth::platform {
namespace {

class Calls {
 public:
  void Add() {
    base::MutexLock lock(mutex_);
    ++count_;
    changed_.NotifyAll();
  }
  // Waits until `done` holds after a call, for at most 10 s.
  bool WaitFor(const std::function<bool()>& done) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    base::MutexLock lock(mutex_);
    for (int seen = 0;; seen = count_) {
      while (count_ == seen) {
        if (!changed_.WaitUntil(mutex_, deadline)) return false;
      }
      if (done()) return true;
    }
  }
  int count() {
    base::MutexLock lock(mutex_);
    return count_;
  }

 private:
  base::Mutex mutex_;
  base::CondVar changed_;
  int count_ ABSL_GUARDED_BY(mutex_) = 0;
};

TEST(WatchFolderDepth, WhatIsDeeperIsNotFollowed) {
  const TempFolder folder;
  ASSERT_TRUE(MakeFolders(folder / "a/b").ok());
  Calls calls;
  auto watch = WatchFolder(folder.path(), [&] { calls.Add(); }, /*depth=*/1);
  ASSERT_TRUE(watch.ok());
  ASSERT_TRUE(calls.WaitFor([] { return true; }));
  ASSERT_TRUE(WriteDurably<"test.file">(folder / "a/b/deep", "x").ok());
  ASSERT_EQ(calls.count(), 1);
  ASSERT_TRUE(WriteDurably<"test.file">(folder / "a/seen", "x").ok());
  EXPECT_TRUE(calls.WaitFor([] { return true; }));
}

class WatchFolderTest : public testing::Test {
 protected:
  // What the last call of the watcher saw of `path`.
  bool Seen(const std::string& path, const std::function<void()>& change) {
    std::atomic<bool> there = false;
    Calls calls;
    auto watch = WatchFolder(folder_.path(), [&] {
      there = access(path.c_str(), F_OK) == 0;
      calls.Add();
    });
    EXPECT_TRUE(watch.ok());
    EXPECT_TRUE(calls.WaitFor([] { return true; }));  // the call at the start
    change();
    return calls.WaitFor([&] { return there.load(); });
  }
  const TempFolder folder_;
};

TEST_F(WatchFolderTest, TellsOfAFileMadeMovedInOrWritten) {
  EXPECT_TRUE(Seen(folder_ / "a",
                   [&] { ASSERT_TRUE(WriteDurably<"test.file">(folder_ / "a", "x").ok()); }));
}

TEST_F(WatchFolderTest, TellsOfSubfoldersMadeLater) {
  EXPECT_TRUE(Seen(folder_ / "sub/deep/a", [&] {
    ASSERT_TRUE(MakeFolders(folder_ / "sub/deep").ok());
    ASSERT_TRUE(WriteDurably<"test.file">(folder_ / "sub/deep/a", "x").ok());
  }));
}

TEST_F(WatchFolderTest, TellsOfARemoval) {
  ASSERT_TRUE(WriteDurably<"test.file">(folder_ / "a", "x").ok());
  std::atomic<bool> there = true;
  Calls calls;
  auto watch = WatchFolder(folder_.path(), [&] {
    there = access((folder_ / "a").c_str(), F_OK) == 0;
    calls.Add();
  });
  ASSERT_TRUE(watch.ok());
  ASSERT_TRUE(RemoveDurably<"test.file">(folder_ / "a").ok());
  EXPECT_TRUE(calls.WaitFor([&] { return !there; }));
}

TEST_F(WatchFolderTest, GoesOnWhenTheFolderIsRemovedAndMadeAgain) {
  ASSERT_TRUE(MakeFolders(folder_ / "plugins").ok());
  std::atomic<bool> there = false;
  Calls calls;
  auto watch = WatchFolder(folder_ / "plugins", [&] {
    there = access((folder_ / "plugins/sock").c_str(), F_OK) == 0;
    calls.Add();
  });
  ASSERT_TRUE(watch.ok());
  ASSERT_TRUE(RemoveTree(folder_ / "plugins").ok());
  ASSERT_TRUE(MakeFolders(folder_ / "plugins").ok());
  ASSERT_TRUE(WriteDurably<"test.file">(folder_ / "plugins/sock", "x").ok());
  EXPECT_TRUE(calls.WaitFor([&] { return there.load(); }));
}

TEST_F(WatchFolderTest, NeedsAFolder) {
  EXPECT_EQ(WatchFolder(folder_ / "none", [] {}).status().code(), base::StatusCode::kNotFound);
}

TEST_F(WatchFolderTest, IsSilentAfterItsEnd) {
  Calls calls;
  auto watch = WatchFolder(folder_.path(), [&] { calls.Add(); });
  ASSERT_TRUE(watch.ok());
  ASSERT_TRUE(calls.WaitFor([] { return true; }));
  watch->reset();
  const int before = calls.count();
  ASSERT_TRUE(WriteDurably<"test.file">(folder_ / "a", "x").ok());
  EXPECT_EQ(calls.count(), before);
}

}  // namespace
}  // namespace berth::platform
