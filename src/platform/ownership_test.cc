#include "platform/ownership.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "platform/durable_file.h"
#include "platform/fake_temp_folder.h"

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
  ASSERT_TRUE(MakeFolders(folder / "volume/sub", 0700).ok());
  ASSERT_EQ(chmod((folder / "volume").c_str(), 0700), 0);
  int asked = 0;
  const base::Status status = ApplyFsGroup(
      folder / "volume", {.group = getgid(), .cancelled = [&] { return ++asked > 1; }});
  EXPECT_EQ(status.code(), StatusCode::kCancelled);
  struct stat st;
  ASSERT_EQ(stat((folder / "volume").c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 07777, 0700u);
}

TEST(ApplyFsGroup, RefusesARootThatIsASymlink) {
  const TempFolder folder;
  ASSERT_TRUE(MakeFolders(folder / "real").ok());
  ASSERT_EQ(symlink("real", (folder / "link").c_str()), 0);
  EXPECT_FALSE(ApplyFsGroup(folder / "link", {.group = getgid()}).ok());
}

}  // namespace
}  // namespace berth::platform
