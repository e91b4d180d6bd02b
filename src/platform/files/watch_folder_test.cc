#include "platform/files/watch_folder.h"

#include <gtest/gtest.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mutex.h"
#include "platform/files/durable_file.h"
#include "platform/files/fake_temp_folder.h"

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
  // Waits for one more call than `before`.
  bool WaitForMore(int before) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    base::MutexLock lock(mutex_);
    while (count_ <= before) {
      if (!changed_.WaitUntil(mutex_, deadline)) return false;
    }
    return true;
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
  auto watch = WatchFolder(folder.path(), [&] { calls.Add(); }, {.max_depth = 1});
  ASSERT_TRUE(watch.ok());
  ASSERT_TRUE(calls.WaitFor([] { return true; }));
  ASSERT_TRUE(WriteDurably<"test.file">(folder / "a/b/deep", "x").ok());
  ASSERT_EQ(calls.count(), 1);
  ASSERT_TRUE(WriteDurably<"test.file">(folder / "a/seen", "x").ok());
  EXPECT_TRUE(calls.WaitForMore(1));
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

// Counts the watches of all inotify descriptors of this process.
int WatchesOfThisProcess() {
  int watches = 0;
  const auto fds = ListFolder("/proc/self/fdinfo");
  for (const std::string& fd : *fds) {
    const auto info = ReadFile("/proc/self/fdinfo/" + fd);
    if (!info.ok()) continue;
    for (size_t at = info->find("inotify wd:"); at != std::string::npos;
         at = info->find("inotify wd:", at + 1)) {
      ++watches;
    }
  }
  return watches;
}

// The calls of a watch with a window, which outlast a second's worth of changes.
class WatchWindowTest : public testing::Test {
 protected:
  static constexpr std::chrono::milliseconds kWindow{100};

  void Watch(WatchOptions options, const char* path = "drivers") {
    options.on_trouble = [this](const base::Status& why) {
      base::MutexLock lock(mutex_);
      troubles_.push_back(why);
    };
    auto watch = WatchFolder(folder_ / path, [this] { calls_.Add(); }, std::move(options));
    ASSERT_TRUE(watch.ok()) << watch.status();
    watch_ = *std::move(watch);
    ASSERT_TRUE(calls_.WaitFor([] { return true; }));
  }
  void Write(const std::string& name) {
    ASSERT_TRUE(WriteDurably<"test.file">(folder_ / "drivers/" + name, "x").ok());
  }
  size_t troubles() {
    base::MutexLock lock(mutex_);
    return troubles_.size();
  }

  const TempFolder folder_;
  Calls calls_;
  base::Mutex mutex_;
  std::vector<base::Status> troubles_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<FolderWatch> watch_;
};

TEST_F(WatchWindowTest, ABurstIsOneCallThatSeesItsLastChange) {
  ASSERT_TRUE(MakeFolders(folder_ / "drivers").ok());
  Watch({.window = kWindow});
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 300; ++i) Write(fmt::format("file-{}", i));
  const auto took = std::chrono::steady_clock::now() - start;
  // There must be a call after the last change; without one this waits in vain.
  std::atomic<bool> last = false;
  Write("last");
  EXPECT_TRUE(calls_.WaitFor([&] {
    last = access((folder_ / "drivers/last").c_str(), F_OK) == 0;
    return last.load();
  }));
  EXPECT_LE(calls_.count() - 1, took / kWindow + 2);
}

TEST_F(WatchWindowTest, MakesTheFolderAgainAndWatchesIt) {
  Watch({.window = kWindow, .keep_folder = true});
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(RemoveTree(folder_ / "drivers").ok());
    ASSERT_TRUE(calls_.WaitFor([&] { return access((folder_ / "drivers").c_str(), F_OK) == 0; }));
    const int before = calls_.count();
    Write("file");
    ASSERT_TRUE(calls_.WaitForMore(before));
  }
}

TEST_F(WatchWindowTest, FollowsAFolderThatTookTheOthersPlace) {
  ASSERT_TRUE(MakeFolders(folder_ / "drivers/a").ok());
  ASSERT_TRUE(MakeFolders(folder_ / "other/a").ok());
  Watch({.window = kWindow, .keep_folder = true});
  ASSERT_EQ(rename((folder_ / "drivers").c_str(), (folder_ / "old").c_str()), 0);
  ASSERT_EQ(rename((folder_ / "other").c_str(), (folder_ / "drivers").c_str()), 0);
  ASSERT_TRUE(calls_.WaitForMore(1));
  const int replaced = calls_.count();
  Write("a/file");
  ASSERT_TRUE(calls_.WaitForMore(replaced));
  EXPECT_GT(troubles(), 0);
  EXPECT_EQ(WatchesOfThisProcess(), 2) << "the old folders are still watched";
}

TEST_F(WatchWindowTest, FollowsThePathWhenAParentIsRenamed) {
  ASSERT_TRUE(MakeFolders(folder_ / "top/drivers").ok());
  ASSERT_TRUE(MakeFolders(folder_ / "other/drivers").ok());
  Watch(
      {.window = kWindow, .keep_folder = true, .recheck_interval = std::chrono::milliseconds(200)},
      "top/drivers");
  ASSERT_EQ(rename((folder_ / "top").c_str(), (folder_ / "old").c_str()), 0);
  ASSERT_EQ(rename((folder_ / "other").c_str(), (folder_ / "top").c_str()), 0);
  ASSERT_TRUE(calls_.WaitForMore(1));
  EXPECT_EQ(troubles(), 1);
  const int replaced = calls_.count();
  ASSERT_TRUE(WriteDurably<"test.file">(folder_ / "top/drivers/file", "x").ok());
  EXPECT_TRUE(calls_.WaitForMore(replaced));
  // One that is gone is made again.
  ASSERT_EQ(rename((folder_ / "top").c_str(), (folder_ / "older").c_str()), 0);
  EXPECT_TRUE(calls_.WaitFor([&] { return access((folder_ / "top/drivers").c_str(), F_OK) == 0; }));
}

TEST_F(WatchWindowTest, DotNamesTellNothing) {
  ASSERT_TRUE(MakeFolders(folder_ / "drivers/.hidden").ok());
  Watch({.window = kWindow, .skip_dot_names = true});
  Write(".file");
  Write(".hidden/file");
  watch_->RequestCall(3 * kWindow);
  ASSERT_TRUE(calls_.WaitForMore(1));
  EXPECT_EQ(calls_.count(), 2);
  ASSERT_EQ(rename((folder_ / "drivers/.file").c_str(), (folder_ / "drivers/file").c_str()), 0);
  EXPECT_TRUE(calls_.WaitForMore(2));
}

TEST_F(WatchWindowTest, TellsOfAModeIfAsked) {
  ASSERT_TRUE(MakeFolders(folder_ / "drivers").ok());
  Write("file");
  Watch({.window = kWindow, .report_attributes = true});
  ASSERT_EQ(chmod((folder_ / "drivers/file").c_str(), 0755), 0);
  EXPECT_TRUE(calls_.WaitForMore(1));
}

TEST_F(WatchWindowTest, ASymlinkIsNotFollowed) {
  ASSERT_TRUE(MakeFolders(folder_ / "drivers").ok());
  ASSERT_TRUE(MakeFolders(folder_ / "elsewhere").ok());
  ASSERT_EQ(symlink((folder_ / "elsewhere").c_str(), (folder_ / "drivers/link").c_str()), 0);
  Watch({.window = kWindow});
  ASSERT_TRUE(WriteDurably<"test.file">(folder_ / "elsewhere/file", "x").ok());
  watch_->RequestCall(3 * kWindow);
  ASSERT_TRUE(calls_.WaitForMore(1));
  EXPECT_EQ(calls_.count(), 2);
}

TEST_F(WatchWindowTest, AnOverflowIsACallAndIsTold) {
  ASSERT_TRUE(MakeFolders(folder_ / "drivers/a").ok());
  const base::StatusOr<std::string> most = ReadFile("/proc/sys/fs/inotify/max_queued_events");
  ASSERT_TRUE(most.ok());
  Watch({.window = std::chrono::seconds(2), .report_attributes = true});
  // Two files in turns: equal events in a row are one.
  Write("a/1");
  Write("a/2");
  for (int i = 0; i < std::stoi(*most) + 16; ++i) {
    ASSERT_EQ(chmod((folder_ / fmt::format("drivers/a/{}", 1 + i % 2)).c_str(), 0600), 0);
  }
  ASSERT_TRUE(calls_.WaitForMore(1));
  EXPECT_EQ(troubles(), 1);
}

TEST_F(WatchWindowTest, FoldersBeyondTheWatchesAreLookedAtEverySecond) {
  ASSERT_TRUE(MakeFolders(folder_ / "drivers").ok());
  for (int i = 0; i < 4200; ++i) {
    ASSERT_EQ(mkdir((folder_ / fmt::format("drivers/{}", i)).c_str(), 0755), 0);
  }
  Watch({.window = kWindow});
  EXPECT_TRUE(calls_.WaitForMore(2)) << "nothing changed that a watch tells of";
  EXPECT_EQ(troubles(), 1);
  // With fewer folders all are watched again.
  for (int i = 0; i < 200; ++i) {
    ASSERT_EQ(rmdir((folder_ / fmt::format("drivers/{}", i)).c_str()), 0);
  }
  EXPECT_TRUE(calls_.WaitFor([] { return WatchesOfThisProcess() == 4001; }));
}

TEST_F(WatchWindowTest, TheWatchesMatchTheFolders) {
  ASSERT_TRUE(MakeFolders(folder_ / "drivers/a/deep/deeper").ok());
  Watch({.window = kWindow, .skip_dot_names = true});
  EXPECT_EQ(WatchesOfThisProcess(), 4);
  ASSERT_EQ(rename((folder_ / "drivers/a").c_str(), (folder_ / "gone").c_str()), 0);
  ASSERT_TRUE(calls_.WaitFor([] { return WatchesOfThisProcess() == 1; }));
  ASSERT_TRUE(MakeFolders(folder_ / "drivers/b/c").ok());
  ASSERT_TRUE(calls_.WaitFor([] { return WatchesOfThisProcess() == 3; }));
  ASSERT_EQ(rename((folder_ / "drivers/b").c_str(), (folder_ / "drivers/.b").c_str()), 0);
  EXPECT_TRUE(calls_.WaitFor([] { return WatchesOfThisProcess() == 1; }));
}

}  // namespace
}  // namespace berth::platform
