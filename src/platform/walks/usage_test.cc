#include "platform/walks/usage.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "platform/files/durable_file.h"
#include "platform/files/fake_temp_folder.h"

namespace berth::platform {
namespace {

TEST(GetFileSystemUsage, AddsUp) {
  const TempFolder folder;
  const auto usage = GetFileSystemUsage(folder.path());
  ASSERT_TRUE(usage.ok()) << base::ToString(usage.status());
  EXPECT_GT(usage->total_bytes, 0);
  EXPECT_GT(usage->used_bytes, 0);
  EXPECT_LE(usage->used_bytes + usage->available_bytes, usage->total_bytes);
  EXPECT_EQ(usage->used_inodes + usage->available_inodes, usage->total_inodes);
  EXPECT_EQ(GetFileSystemUsage(folder / "none").status().code(), base::StatusCode::kNotFound);
}

TEST(GetFolderUsage, CountsBlocksAndHardLinksOnce) {
  const TempFolder folder;
  const auto later = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  ASSERT_TRUE(MakeFolders(folder / "a/b").ok());
  ASSERT_TRUE(WriteDurably<"test.file">(folder / "a/b/file", std::string(1 << 20, 'x')).ok());
  folder.SparseFile("a/holes", 1 << 30);
  const auto one = GetFolderUsage(folder / "a", later);
  ASSERT_TRUE(one.ok());
  EXPECT_GE(one->bytes, 1 << 20);
  EXPECT_LT(one->bytes, 2 << 20);
  EXPECT_EQ(one->inodes, 4);
  ASSERT_EQ(link((folder / "a/b/file").c_str(), (folder / "a/again").c_str()), 0);
  const auto two = GetFolderUsage(folder / "a", later);
  EXPECT_EQ(two->inodes, one->inodes);
  EXPECT_EQ(GetFolderUsage(folder / "a", {}).status().code(), base::StatusCode::kDeadlineExceeded);
}

}  // namespace
}  // namespace berth::platform
