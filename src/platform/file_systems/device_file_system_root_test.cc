#include <gtest/gtest.h>

#include "base/assert_ok.h"
#include "platform/devices/fake_disk.h"
#include "platform/file_systems/device_file_system.h"

namespace berth::platform {
namespace {

class DeviceFileSystemTest : public testing::TestWithParam<const char*> {
 protected:
  const FileSystem& fs() { return *FindFileSystem(GetParam()); }
  int64_t Bytes() {
    const auto bytes = ReadFileSystemBytes(fs(), disk_.device());
    EXPECT_TRUE(bytes.ok()) << bytes.status();
    return bytes.value_or(0);
  }
  const std::unique_ptr<Exec> exec_ = NewHostExec();
  Disk disk_;
};

TEST_P(DeviceFileSystemTest, TellsHowMuchOfItsDeviceItTakes) {
  constexpr int64_t kUnused = 1 << 20;  // at most, at the end
  constexpr auto kSize = static_cast<int64_t>(kDiskSize);
  ASSERT_OK(PrepareFileSystem(*exec_, disk_.device(), GetParam()));
  EXPECT_LE(Bytes(), kSize);
  EXPECT_GT(Bytes(), kSize - kUnused);
  disk_.Grow(2 * kDiskSize);
  EXPECT_LE(Bytes(), kSize);
  ASSERT_OK(fs().Resize(*exec_, disk_.device(), {}));
  EXPECT_GT(Bytes(), 2 * kSize - kUnused);
}

TEST_P(DeviceFileSystemTest, IsMadeAnewOverAnUnfinishedOne) {
  constexpr const char* kUuid = "b5a7a3c4-1f0e-4c5a-9d3b-0123456789ab";
  ASSERT_OK(FormatIfBlank(*exec_, disk_.device(), GetParam(), {.uuid = kUuid}));
  ASSERT_OK(ClearUnfinishedFormat(disk_.device()));
  ASSERT_OK(fs().Format(*exec_, disk_.device(), {.uuid = kUuid, .force = true}));
  const auto found = ProbeSignature(disk_.device());
  ASSERT_TRUE(found.ok() && found->has_value());
  EXPECT_EQ((*found)->type, GetParam());
  EXPECT_EQ((*found)->uuid, kUuid);
}

TEST_P(DeviceFileSystemTest, MountsWhatIsThereOrWhatIsAskedFor) {
  EXPECT_EQ(ChooseFileSystemType(disk_.device(), "").value(), "ext4");  // it is blank
  EXPECT_EQ(ChooseFileSystemType(disk_.device(), GetParam()).value(), GetParam());
  EXPECT_EQ(ChooseFileSystemType(disk_.device(), "ntfs").status().code(),
            base::StatusCode::kFailedPrecondition);
  ASSERT_OK(PrepareFileSystem(*exec_, disk_.device(), GetParam()));
  EXPECT_EQ(ChooseFileSystemType(disk_.device(), "").value(), GetParam());
}

INSTANTIATE_TEST_SUITE_P(All, DeviceFileSystemTest, testing::Values("ext4", "xfs", "btrfs"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace berth::platform
