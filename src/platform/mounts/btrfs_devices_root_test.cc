#include <gmock/gmock.h>

#include "platform/devices/fake_disk.h"
#include "platform/file_systems/file_system.h"
#include "platform/mounts/fake_btrfs.h"

namespace berth::platform {
namespace {

using testing::HasSubstr;

class BtrfsDevicesTest : public BtrfsTest {
 protected:
  void SetUp() override {
    Format({one_.device(), two_.device()});
    Run({"btrfs", "device", "scan", one_.device(), two_.device()});
  }
  base::Status Mount(bool one_device) {
    return mounter_->Mount({.source = one_.device(),
                            .target = one_.mount_point(),
                            .fs_type = "btrfs",
                            .one_device = one_device});
  }
  bool IsMounted() {
    const auto table = mounter_->List();
    return !table.ok() || FindMount(*table, one_.mount_point()) != nullptr;
  }

  const std::unique_ptr<Mounter> mounter_ = NewMounter();
  Disk one_, two_;
};

TEST_F(BtrfsDevicesTest, AVolumeIsNeverAPartOfALargerFileSystem) {
  const base::Status refused = Mount(/*one_device=*/true);
  EXPECT_EQ(refused.code(), base::StatusCode::kFailedPrecondition) << refused;
  EXPECT_THAT(std::string(base::Message(refused)), HasSubstr("consists of 2 devices"));
  EXPECT_FALSE(IsMounted());
}

TEST_F(BtrfsDevicesTest, AnAdministratorsDiskMayHaveSeveralDevices) {
  ASSERT_OK(Mount(/*one_device=*/false));
  EXPECT_TRUE(IsMounted());
  ASSERT_OK(mounter_->Unmount(one_.mount_point()));
}

TEST_F(BtrfsDevicesTest, AVolumeThatIsPartOfALargerFileSystemIsNotGrown) {
  const base::Status refused =
      FindFileSystem("btrfs")->Resize(*exec_, one_.device(), /*mount_point=*/{});
  EXPECT_EQ(refused.code(), base::StatusCode::kFailedPrecondition) << refused;
  EXPECT_THAT(std::string(base::Message(refused)), HasSubstr("consists of 2 devices"));
}

}  // namespace
}  // namespace berth::platform
