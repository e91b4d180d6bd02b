#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "node/hostmounts/host_mount_targets.h"
#include "node/volumes/sub_path.h"

namespace berth::node {
namespace {

using base::StatusCode;
using ::testing::IsEmpty;
namespace fs = std::filesystem;

class MountTest : public ::testing::Test {
 protected:
  MountTest() {
    std::string pattern = "/tmp/berth-subpath-XXXXXX";
    if (mkdtemp(pattern.data()) == nullptr) std::abort();
    folder_ = fs::canonical(pattern);
    volume_ = folder_ + "/volume";
    fs::create_directory(volume_);
  }
  void SetUp() override {
    ASSERT_TRUE(mounter_->Mount({.source = "tmpfs", .target = volume_, .fs_type = "tmpfs"}).ok());
  }
  ~MountTest() override {
    (void)UnmountBeneath(*mounter_, folder_);
    fs::remove_all(folder_);
  }
  std::string Read(const std::string& path) const {
    std::ifstream in(path);
    return std::string(std::istreambuf_iterator<char>(in), {});
  }
  const platform::MountEntry* MountAt(const std::string& path) {
    table_ = *mounter_->List();
    return platform::FindMount(table_, path);
  }

  std::unique_ptr<platform::Mounter> mounter_ = platform::NewMounter();
  std::vector<platform::MountEntry> table_;
  std::string folder_;
  std::string volume_;
};

class SubPath : public MountTest {
 protected:
  base::StatusOr<std::string> Prepare(const std::string& sub_path, bool read_only = false) {
    return PrepareSubPath(*mounter_, {.volume_path = volume_,
                                      .sub_path = sub_path,
                                      .target = paths_.PodSubPath(
                                          api::PodUid("u"), api::VolumeName("data"), "main", 0),
                                      .read_only = read_only});
  }
  // It is constructed after folder_, which it uses.
  const volume::Paths paths_{folder_ + "/kubelet"};
};

TEST_F(SubPath, AFolderIsMadeAndMounted) {
  const auto target = Prepare("a/b");
  ASSERT_TRUE(target.ok()) << target.status();
  EXPECT_EQ(*target, paths_.PodSubPath(api::PodUid("u"), api::VolumeName("data"), "main", 0));
  std::ofstream(*target + "/file") << "hello";
  EXPECT_EQ(Read(volume_ + "/a/b/file"), "hello");
  ASSERT_TRUE(ReleaseSubPaths(*mounter_, paths_, "u", {"data"}).ok());
  EXPECT_EQ(MountAt(*target), nullptr);
  EXPECT_FALSE(fs::exists(paths_.Pod("u") + "/volume-subpaths"));
  EXPECT_EQ(Read(volume_ + "/a/b/file"), "hello");
}

TEST_F(SubPath, AFileIsMountedAsAFile) {
  std::ofstream(volume_ + "/settings") << "x=1";
  const auto target = Prepare("settings");
  ASSERT_TRUE(target.ok()) << target.status();
  EXPECT_EQ(Read(*target), "x=1");
}

TEST_F(SubPath, ReadOnlyIsReadOnly) {
  const auto target = Prepare("a", /*read_only=*/true);
  ASSERT_TRUE(target.ok()) << target.status();
  EXPECT_FALSE(std::ofstream(*target + "/file").is_open());
  EXPECT_TRUE(std::ofstream(volume_ + "/a/file").is_open());
}

TEST_F(SubPath, ASecondStartOfTheContainerReplacesTheFirst) {
  ASSERT_TRUE(Prepare("a").ok());
  std::ofstream(volume_ + "/a-file") << "file";
  const auto target = Prepare("a-file");  // of another kind, even
  ASSERT_TRUE(target.ok()) << target.status();
  EXPECT_EQ(Read(*target), "file");
}

TEST_F(SubPath, PathsThatLeadOutAreRefused) {
  fs::create_directory(folder_ + "/secret");
  fs::create_directory_symlink("/etc", volume_ + "/absolute");
  fs::create_directory_symlink("../secret", volume_ + "/relative");
  fs::create_directory_symlink("/proc/self/root/etc", volume_ + "/magic");
  for (const char* sub_path : {"absolute", "relative", "magic", "absolute/ssl", "relative/x"}) {
    EXPECT_FALSE(Prepare(sub_path).ok()) << sub_path;
  }
  for (const char* sub_path : {"", "/etc", "..", "a/../..", "../secret"}) {
    EXPECT_EQ(Prepare(sub_path).status().code(), StatusCode::kInvalidArgument) << sub_path;
  }
  EXPECT_EQ(MountAt(paths_.PodSubPath(api::PodUid("u"), api::VolumeName("data"), "main", 0)),
            nullptr);
}

TEST_F(SubPath, ASymlinkWithinTheVolumeIsFollowed) {
  fs::create_directory(volume_ + "/v2");
  fs::create_directory_symlink("v2", volume_ + "/current");
  std::ofstream(volume_ + "/v2/file") << "two";
  const auto target = Prepare("current");
  ASSERT_TRUE(target.ok()) << target.status();
  EXPECT_EQ(Read(*target + "/file"), "two");
}

TEST_F(SubPath, ABusyOneIsNotForgotten) {
  const auto target = Prepare("a");
  ASSERT_TRUE(target.ok());
  {
    std::ofstream open(*target + "/file");
    EXPECT_EQ(ReleaseSubPaths(*mounter_, paths_, "u", {"data"}).code(),
              StatusCode::kFailedPrecondition);
  }
  EXPECT_TRUE(ReleaseSubPaths(*mounter_, paths_, "u", {"data"}).ok());
}

// ---- host mounts, with the kernel's own table ----

class HostTargets : public MountTest {
 protected:
  void SetUp() override {
    MountTest::SetUp();
    ASSERT_TRUE(targets_->Open().ok());
  }
  void Restart() {
    targets_ = std::make_unique<HostMountTargets>(folder_ + "/state", folder_ + "/own", *mounter_);
    const auto loaded = targets_->Open();
    ASSERT_TRUE(loaded.ok());
    ASSERT_EQ(loaded->records.size(), 1U);
    record_ = loaded->records.front();
    EXPECT_TRUE(loaded->damaged.empty());
  }
  std::unique_ptr<HostMountTargets> targets_ =
      std::make_unique<HostMountTargets>(folder_ + "/state", folder_ + "/own", *mounter_);
  HostMountRecord record_{.uid = "m-1", .key = "default/m", .path = folder_ + "/mnt/deep"};
};

TEST_F(HostTargets, MountsUnmountsAndCleansUp) {
  const base::Status mounted = targets_->Mount(record_, volume_);
  ASSERT_TRUE(mounted.ok()) << mounted;
  std::ofstream(record_.path + "/file") << "hello";
  EXPECT_EQ(Read(volume_ + "/file"), "hello");
  Restart();
  EXPECT_TRUE(*targets_->IsMounted(record_));
  EXPECT_TRUE(targets_->Mount(record_, volume_).ok());
  ASSERT_TRUE(targets_->Unmount(record_).ok());
  EXPECT_EQ(MountAt(record_.path), nullptr);
  EXPECT_FALSE(fs::exists(record_.path));
  EXPECT_EQ(Read(volume_ + "/file"), "hello");
  EXPECT_THAT(fs::directory_iterator(folder_ + "/state"), testing::Eq(fs::directory_iterator()));
}

TEST_F(HostTargets, AMountWhoseMakingWasCutOffIsRecognised) {
  ASSERT_TRUE(targets_->Mount(record_, volume_).ok());
  // As the record was before the mount.
  record_.mounted = false;
  record_.mount.id = 0;
  ASSERT_TRUE(targets_->Mount(record_, volume_).ok());
  EXPECT_TRUE(record_.mounted);
  ASSERT_TRUE(targets_->Unmount(record_).ok());
  EXPECT_EQ(MountAt(record_.path), nullptr);
}

TEST_F(HostTargets, ABusyMountStays) {
  ASSERT_TRUE(targets_->Mount(record_, volume_).ok());
  {
    std::ofstream open(record_.path + "/file");
    EXPECT_EQ(targets_->Unmount(record_).code(), StatusCode::kFailedPrecondition);
  }
  EXPECT_TRUE(targets_->Unmount(record_).ok());
}

TEST_F(HostTargets, SomebodyElsesMountIsNeverUnmounted) {
  ASSERT_TRUE(targets_->Mount(record_, volume_).ok());
  ASSERT_TRUE(
      mounter_->Mount({.source = "tmpfs", .target = record_.path, .fs_type = "tmpfs"}).ok());
  EXPECT_EQ(targets_->Unmount(record_).code(), StatusCode::kFailedPrecondition);
  EXPECT_NE(MountAt(record_.path), nullptr);
  ASSERT_TRUE(mounter_->Unmount(record_.path).ok());
  ASSERT_TRUE(targets_->Unmount(record_).ok());
  // The person unmounted it, and put something of their own there.
  HostMountRecord second{.uid = "m-2", .key = "default/n", .path = folder_ + "/other"};
  ASSERT_TRUE(targets_->Mount(second, volume_).ok());
  ASSERT_TRUE(mounter_->Unmount(second.path).ok());
  ASSERT_TRUE(mounter_->Mount({.source = "tmpfs", .target = second.path, .fs_type = "tmpfs"}).ok());
  EXPECT_TRUE(targets_->Unmount(second).ok());
  EXPECT_NE(MountAt(second.path), nullptr);
}

TEST_F(HostTargets, ReadOnlyIsReadOnly) {
  record_.read_only = true;
  ASSERT_TRUE(targets_->Mount(record_, volume_).ok());
  EXPECT_FALSE(std::ofstream(record_.path + "/file").is_open());
  EXPECT_TRUE(std::ofstream(volume_ + "/file").is_open());
}

}  // namespace
}  // namespace berth::node
