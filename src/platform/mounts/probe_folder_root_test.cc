// How a file system whose server hangs or is gone affects its callers.
#include <gtest/gtest.h>
#include <unistd.h>

#include "platform/files/durable_file.h"
#include "platform/files/fake_temp_folder.h"
#include "platform/mounts/fake_lost_mount.h"
#include "platform/mounts/mounter.h"
#include "platform/mounts/probe_folder.h"
#include "platform/walks/usage.h"

namespace berth::platform {
namespace {

using base::StatusCode;

class LostMountRootTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "skipped: mounting needs root";
    ASSERT_TRUE(MakeFolders(target_).ok());
    auto mount = LostMount::Make(target_);
    ASSERT_TRUE(mount.ok()) << mount.status();
    mount_ = *std::move(mount);
  }

  TempFolder folder_;
  const std::string target_ = folder_.path() + "/lost";
  std::unique_ptr<LostMount> mount_;
  std::unique_ptr<Mounter> mounter_ = NewMounter();
};

constexpr std::chrono::milliseconds kSoon(200);

TEST_F(LostMountRootTest, AHungOneCostsTheDeadlineAndNoMore) {
  EXPECT_EQ(ProbeFolder(target_, kSoon).code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(GetFileSystemUsage(target_, kSoon).status().code(), StatusCode::kDeadlineExceeded);
}

TEST_F(LostMountRootTest, ADeadOneIsSaid) {
  mount_->Die();
  const base::Status probed = ProbeFolder(target_);
  EXPECT_FALSE(probed.ok());
  EXPECT_NE(base::ToString(probed).find("not connected"), std::string::npos)
      << base::ToString(probed);
}

TEST_F(LostMountRootTest, TheTableShowsItWithoutTouchingItAndItCanBeUnmounted) {
  const auto table = mounter_->List();
  ASSERT_TRUE(table.ok());
  ASSERT_NE(FindMount(*table, target_), nullptr);
  EXPECT_EQ(RemoveTree(folder_.path()).code(), StatusCode::kFailedPrecondition);
  EXPECT_TRUE(mounter_->Unmount(target_).ok());
  EXPECT_EQ(FindMount(*mounter_->List(), target_), nullptr);
}

TEST_F(LostMountRootTest, OthersAreMountedBesideIt) {
  const std::string beside = folder_.path() + "/beside";
  ASSERT_TRUE(MakeFolders(beside).ok());
  ASSERT_TRUE(mounter_->Mount({.source = "tmpfs", .target = beside, .fs_type = "tmpfs"}).ok());
  EXPECT_TRUE(ProbeFolder(beside).ok());
  EXPECT_TRUE(mounter_->Unmount(beside).ok());
}

}  // namespace
}  // namespace berth::platform
