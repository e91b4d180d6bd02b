#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "platform/devices/loop_device.h"
#include "platform/file_systems/file_system.h"
#include "platform/file_systems/reflink.h"
#include "platform/files/durable_file.h"
#include "platform/files/fake_temp_folder.h"
#include "platform/mounts/mounter.h"
#include "platform/processes/exec.h"
#include "platform/walks/usage.h"

namespace berth::platform {
namespace {

TEST(Reflink, SharesExtentsOnXfs) {
  const TempFolder folder;
  const std::string mount_point = folder / "mnt";
  ASSERT_TRUE(MakeFolders(mount_point).ok());
  const auto loop = AttachLoop(folder.SparseFile("image", 320 << 20), {});
  ASSERT_TRUE(loop.ok());
  ASSERT_TRUE(FormatIfBlank(*NewHostExec(), loop->path, "xfs", {}).ok());
  const auto mounter = NewMounter();
  ASSERT_TRUE(mounter->Mount({.source = loop->path, .target = mount_point, .fs_type = "xfs"}).ok());
  EXPECT_TRUE(*CanReflink(mount_point));
  ASSERT_TRUE(WriteDurably<"test.file">(mount_point + "/from", std::string(32 << 20, 'x')).ok());
  const int64_t before = GetFileSystemUsage(mount_point)->used_bytes;
  {
    const base::UniqueFd from(open((mount_point + "/from").c_str(), O_RDONLY | O_CLOEXEC));
    const base::UniqueFd to(
        open((mount_point + "/to").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    const auto method = CopyImage(from.get(), to.get(), {});
    ASSERT_TRUE(method.ok()) << base::ToString(method.status());
    EXPECT_EQ(*method, CopyMethod::kReflink);
  }
  EXPECT_LT(GetFileSystemUsage(mount_point)->used_bytes, before + (8 << 20));
  EXPECT_EQ(*ReadFile(mount_point + "/to", 64 << 20), std::string(32 << 20, 'x'));
  EXPECT_TRUE(mounter->Unmount(mount_point).ok());
  EXPECT_TRUE(DetachLoop(*loop).ok());
}

TEST(Reflink, KnowsWhereItCannot) {
  const TempFolder folder;
  const auto mounter = NewMounter();
  ASSERT_TRUE(
      mounter->Mount({.source = "tmpfs", .target = folder.path(), .fs_type = "tmpfs"}).ok());
  EXPECT_FALSE(*CanReflink(folder.path()));
}

}  // namespace
}  // namespace berth::platform
