#include "platform/walks/ownership.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "base/unique_fd.h"
#include "platform/files/durable_file.h"
#include "platform/files/fake_temp_folder.h"

namespace berth::platform {
namespace {

using base::StatusCode;

// The group of the process itself, so that no privilege is needed; the root tests use another one.
TEST(ApplyFsGroup, AddsModesAndLeavesSymlinksAlone) {
  const TempFolder folder;
  ASSERT_TRUE(WriteDurably<"test.file">(folder / "outside", "x", 0600).ok());
  ASSERT_TRUE(MakeFolders(folder / "volume/sub", 0700).ok());
  ASSERT_TRUE(WriteDurably<"test.file">(folder / "volume/sub/file", "x", 0600).ok());
  ASSERT_TRUE(WriteDurably<"test.file">(folder / "volume/sub/tool", "x", 0711).ok());
  ASSERT_EQ(symlink("../../outside", (folder / "volume/sub/link").c_str()), 0);
  ASSERT_EQ(mkfifo((folder / "volume/fifo").c_str(), 0600), 0);
  const base::Status status = ApplyFsGroup(folder / "volume", {.group = getgid()});
  ASSERT_TRUE(status.ok()) << base::ToString(status);
  const auto mode = [&](std::string_view name) {
    struct stat st = {};
    EXPECT_EQ(lstat((folder / name).c_str(), &st), 0);
    return st.st_mode & 07777;
  };
  EXPECT_EQ(mode("volume"), 02770u | 0050u);
  EXPECT_EQ(mode("volume/sub"), 02770u);
  EXPECT_EQ(mode("volume/sub/file"), 0660u);
  EXPECT_EQ(mode("volume/sub/tool"), 0771u);
  EXPECT_EQ(mode("volume/fifo"), 0660u);
  EXPECT_EQ(mode("outside"), 0600u);
}

// File systems on FUSE refuse any change, and pods with such a volume start under a kubelet.
TEST(ApplyFsGroup, WhatTheFileSystemRefusesIsLeft) {
  const TempFolder folder;
  ASSERT_TRUE(MakeFolders(folder / "volume/sub", 0700).ok());
  for (const char* name : {"volume/fixed", "volume/sub/file"}) {
    ASSERT_TRUE(WriteDurably<"test.file">(folder / name, "x", 0600).ok());
  }
  const base::UniqueFd fixed(open((folder / "volume/fixed").c_str(), O_RDONLY | O_CLOEXEC));
  int flags = FS_IMMUTABLE_FL;
  if (ioctl(fixed.get(), FS_IOC_SETFLAGS, &flags) != 0) GTEST_SKIP() << "no immutable files here";
  const base::Status status = ApplyFsGroup(folder / "volume", {.group = getgid()});
  flags = 0;
  ASSERT_EQ(ioctl(fixed.get(), FS_IOC_SETFLAGS, &flags), 0);
  ASSERT_TRUE(status.ok()) << base::ToString(status);
  struct stat st;
  ASSERT_EQ(stat((folder / "volume/fixed").c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 07777, 0600u);
  ASSERT_EQ(stat((folder / "volume/sub/file").c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 07777, 0660u);
  ASSERT_EQ(stat((folder / "volume").c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 02070, 02070u);
}

TEST(ApplyFsGroup, OnRootMismatchTrustsTheRoot) {
  const TempFolder folder;
  ASSERT_TRUE(MakeFolders(folder / "volume").ok());
  ASSERT_EQ(chmod((folder / "volume").c_str(), 02770), 0);
  ASSERT_TRUE(WriteDurably<"test.file">(folder / "volume/file", "x", 0600).ok());
  struct stat st;
  ASSERT_TRUE(
      ApplyFsGroup(folder / "volume", {.group = getgid(), .only_on_root_mismatch = true}).ok());
  ASSERT_EQ(stat((folder / "volume/file").c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0600u);
  ASSERT_EQ(chmod((folder / "volume").c_str(), 0770), 0);  // setgid is missing
  ASSERT_TRUE(
      ApplyFsGroup(folder / "volume", {.group = getgid(), .only_on_root_mismatch = true}).ok());
  ASSERT_EQ(stat((folder / "volume/file").c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0660u);
}

TEST(ApplyFsGroup, StopsWhenCancelledAndLeavesTheRootForAnotherTry) {
  const TempFolder folder;
  for (const char* file : {"volume/a/file", "volume/b/file"}) {
    ASSERT_TRUE(MakeFolders(std::filesystem::path(folder / file).parent_path(), 0700).ok());
    ASSERT_TRUE(WriteDurably<"test.file">(folder / file, "x", 0600).ok());
  }
  ASSERT_EQ(chmod((folder / "volume").c_str(), 0700), 0);
  // The first change waits until the walk is told to stop.
  std::atomic<bool> begun = false, cancelled = false, told = false;
  const FsGroupOptions options{.group = getgid(),
                               .exclusive = true,
                               .still_exclusive =
                                   [&] {
                                     begun = true;
                                     while (!told) std::this_thread::yield();
                                     return true;
                                   },
                               .cancelled = [&] { return cancelled = begun.load(); },
                               .progress = [&](uint64_t) { told = cancelled.load(); },
                               .progress_interval = {}};
  const base::Status status = ApplyFsGroup(folder / "volume", options);
  EXPECT_EQ(status.code(), StatusCode::kCancelled);
  struct stat st;
  ASSERT_EQ(stat((folder / "volume").c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 07777, 0700u);
}

// A large folder is divided among threads, and small ones wait in a bounded line.
TEST(ApplyFsGroup, ReachesAllOfALargeTree) {
  const TempFolder folder;
  const auto make = [&](const std::string& path) {
    const base::UniqueFd fd(open(path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    ASSERT_TRUE(fd.valid()) << path;
  };
  for (int i = 0; i < 3000; ++i) make(fmt::format("{}/file-{}", folder.path(), i));
  std::string deep = folder.path();
  for (int i = 0; i < 700; ++i) {
    ASSERT_EQ(mkdir(fmt::format("{}/wide-{}", folder.path(), i).c_str(), 0700), 0);
    make(fmt::format("{}/wide-{}/file", folder.path(), i));
    if (i >= 60) continue;
    deep += fmt::format("/deep-{}", i);
    ASSERT_EQ(mkdir(deep.c_str(), 0700), 0);
    make(deep + "/file");
  }
  uint64_t told = 0;
  const auto status = ApplyFsGroup(folder.path(), {.group = getgid(),
                                                   .progress = [&](uint64_t done) { told = done; },
                                                   .progress_interval = {}});
  ASSERT_TRUE(status.ok()) << base::ToString(status);
  EXPECT_EQ(told, 3000U + 2 * 700U + 2 * 60U) << "the last time, at the end";
  size_t files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder.path())) {
    struct stat st;
    ASSERT_EQ(lstat(entry.path().c_str(), &st), 0);
    ASSERT_EQ(st.st_mode & 07777, S_ISDIR(st.st_mode) ? 02770U : 0660U) << entry.path();
    files += S_ISREG(st.st_mode) ? 1 : 0;
  }
  EXPECT_EQ(files, 3000U + 700U + 60U);
}

TEST(ApplyFsGroup, RefusesATreeThatIsNestedTooDeep) {
  const TempFolder folder;
  base::UniqueFd at(open(folder.path().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  for (int i = 0; i < 1010; ++i) {
    ASSERT_EQ(mkdirat(at.get(), "d", 0700), 0);
    at = base::UniqueFd(openat(at.get(), "d", O_PATH | O_DIRECTORY | O_CLOEXEC));
  }
  EXPECT_EQ(ApplyFsGroup(folder.path(), {.group = getgid()}).code(),
            StatusCode::kResourceExhausted);
}

TEST(ApplyFsGroup, KeepsSetuidOfAVolumeThatNobodyElseHas) {
  const TempFolder folder;
  ASSERT_TRUE(WriteDurably<"test.file">(folder / "tool", "x", 0600).ok());
  ASSERT_EQ(chmod((folder / "tool").c_str(), 04711), 0);
  ASSERT_EQ(symlink("/etc/passwd", (folder / "link").c_str()), 0);
  // Another group where the process may choose one.
  const gid_t group = geteuid() == 0 ? 4242 : getgid();
  ASSERT_TRUE(ApplyFsGroup(folder.path(), {.group = group, .exclusive = true}).ok());
  struct stat st;
  ASSERT_EQ(stat((folder / "tool").c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 07777, 04771U);
  EXPECT_EQ(st.st_gid, group);
  ASSERT_EQ(stat("/etc/passwd", &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0644U);
  EXPECT_EQ(st.st_gid, 0U);
}

TEST(ApplyFsGroup, DoesNotWriteWhatIsRight) {
  const TempFolder folder;
  ASSERT_TRUE(WriteDurably<"test.file">(folder / "file", "x", 0600).ok());
  ASSERT_TRUE(ApplyFsGroup(folder.path(), {.group = getgid()}).ok());
  const auto changed = [&](std::string_view name) {
    struct stat st = {};
    EXPECT_EQ(lstat((folder / name).c_str(), &st), 0);
    return std::pair(st.st_ctim.tv_sec, st.st_ctim.tv_nsec);
  };
  const auto file = changed("file"), root = changed("");
  ASSERT_TRUE(ApplyFsGroup(folder.path(), {.group = getgid()}).ok());
  EXPECT_EQ(changed("file"), file);
  EXPECT_EQ(changed(""), root);
}

TEST(ApplyFsGroup, RefusesARootThatIsASymlink) {
  const TempFolder folder;
  ASSERT_TRUE(MakeFolders(folder / "real").ok());
  ASSERT_EQ(symlink("real", (folder / "link").c_str()), 0);
  EXPECT_FALSE(ApplyFsGroup(folder / "link", {.group = getgid()}).ok());
}

}  // namespace
}  // namespace berth::platform
