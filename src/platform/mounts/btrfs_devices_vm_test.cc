// A tenant copies the UUID of another's btrfs volume onto a raw block volume of his own. These
// tests are run by tests/vm, because only kernels before 6.7 can be deceived so.
#include "platform/devices/fake_disk.h"
#include "platform/file_systems/file_system.h"
#include "platform/mounts/fake_btrfs.h"

namespace berth::platform {
namespace {

class BtrfsTheftTest : public BtrfsTest {
 protected:
  void SetUp() override {
    // mkfs refuses a UUID that a device has already, so the victim's image is not attached yet.
    Format({image_});
    // The tenant's device has the victim's UUID and a later generation, and is device 2.
    Format({spare_.device(), tenant_.device()});
    Run({"btrfs", "device", "scan", spare_.device(), tenant_.device()});
    ASSERT_OK(tenant_.Mount("btrfs"));
    const std::string folder = tenant_.mount_point();
    Run({"btrfs", "device", "delete", spare_.device(), folder});
    for (int i = 0; i < kGenerations; ++i) {
      ASSERT_OK(WriteDurably<"test.file">(folder + "/owner", "the tenant"));
      Run({"btrfs", "filesystem", "sync", folder});
    }
    ASSERT_OK(tenant_.Unmount());
    Run({"btrfs", "device", "scan", "--forget"});
    ASSERT_OK(MakeFolders(target_));
    victim_ = *AttachLoop(image_, {});
    ASSERT_OK(MountVictim());
    ASSERT_OK(WriteDurably<"test.file">(target_ + "/owner", "the victim"));
    ASSERT_OK(mounter_->Unmount(target_));
    // As udev does when the tenant's device appears.
    Run({"btrfs", "device", "scan", tenant_.device()});
  }
  void TearDown() override {
    EXPECT_TRUE(mounter_->Unmount(target_).ok());
    EXPECT_TRUE(DetachLoop(victim_).ok());
  }
  base::Status MountVictim() {
    return mounter_->Mount(
        {.source = victim_.path, .target = target_, .fs_type = "btrfs", .one_device = true});
  }

  static constexpr int kGenerations = 20;
  const std::unique_ptr<Mounter> mounter_ = NewMounter();
  const TempFolder folder_;
  const std::string image_ = folder_.SparseFile("image", kDiskSize);
  const std::string target_ = folder_ / "mnt";
  Disk spare_, tenant_;
  LoopDevice victim_;
};

TEST_F(BtrfsTheftTest, AMountShowsItsOwnDevice) {
  ASSERT_OK(MountVictim());
  EXPECT_EQ(*ReadFile(target_ + "/owner"), "the victim");
}

TEST_F(BtrfsTheftTest, AVolumeGrowsItsOwnFileSystem) {
  ASSERT_EQ(truncate(image_.c_str(), 2 * static_cast<off_t>(kDiskSize)), 0);
  ASSERT_OK(RefreshLoopSize(victim_).status());
  ASSERT_OK(FindFileSystem("btrfs")->Resize(*exec_, victim_.path, /*mount_point=*/{}));
  ASSERT_OK(MountVictim());
  EXPECT_EQ(*ReadFile(target_ + "/owner"), "the victim");
  EXPECT_GT(GetFileSystemUsage(target_)->total_bytes, static_cast<int64_t>(kDiskSize));
}

}  // namespace
}  // namespace berth::platform
