#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <future>

#include "base/assert_ok.h"
#include "platform/devices/fake_disk.h"
#include "platform/file_systems/ext4_superblock.h"
#include "platform/file_systems/file_system.h"
#include "platform/files/durable_file.h"
#include "platform/files/fake_temp_folder.h"
#include "platform/mounts/fake_lost_mount.h"
#include "platform/processes/exec.h"

namespace berth::platform {
namespace {

using base::StatusCode;
using testing::HasSubstr;

std::array<unsigned char, kExt4SuperblockBytes> Superblock(const std::string& device) {
  const base::UniqueFd fd(open(device.c_str(), O_RDONLY | O_CLOEXEC));
  std::array<unsigned char, kExt4SuperblockBytes> bytes = {};
  EXPECT_EQ(pread(fd.get(), bytes.data(), bytes.size(), kExt4SuperblockOffset),
            static_cast<ssize_t>(bytes.size()));
  return bytes;
}

class FileSystemTest : public testing::TestWithParam<const char*> {
 protected:
  const FileSystem& fs() { return *FindFileSystem(GetParam()); }
  base::Status FormatDisk(const FormatOptions& options = {}) {
    return FormatIfBlank(*exec_, disk_.device(), GetParam(), options);
  }
  std::string Uuid() {
    const auto found = ProbeSignature(disk_.device());
    EXPECT_TRUE(found.ok() && found->has_value()) << base::ToString(found.status());
    return found.ok() && *found ? (*found)->uuid : "";
  }
  const std::unique_ptr<Exec> exec_ = NewHostExec();
  Disk disk_;
};

TEST(SilentDeviceTest, SuperblocksAreReadWithADeadline) {
  const TempFolder folder;
  const std::string device = folder.SparseFile("device", kMiB);
  const auto mount = LostMount::MakeFile(device);
  ASSERT_OK(mount.status());
  ASSERT_OK((*mount)->Greet());
  const auto exec = NewHostExec();
  std::future<base::Status> asked[] = {
      std::async(std::launch::async,
                 [&] { return FindFileSystem("ext4")->Check(*exec, device, CheckDepth::kQuick); }),
      std::async(std::launch::async,
                 [&] { return FindFileSystem("btrfs")->NewUuid(*exec, device); })};
  for (auto& answer : asked) {
    if (answer.wait_for(std::chrono::seconds(60)) != std::future_status::ready) {
      ADD_FAILURE() << "the reader of a superblock waits for the silent device";
      (*mount)->Die();
    }
    EXPECT_EQ(answer.get().code(), StatusCode::kDeadlineExceeded);
  }
}

TEST_P(FileSystemTest, IsSupportedHere) { ASSERT_OK(fs().IsSupported(*exec_)); }

TEST_P(FileSystemTest, FormatsABlankDeviceOnceAndKeepsItsData) {
  constexpr const char* kUuid = "b5a7a3c4-1f0e-4c5a-9d3b-0123456789ab";
  ASSERT_OK(FormatDisk({.label = "berth", .uuid = kUuid}));
  EXPECT_EQ(Uuid(), kUuid);
  ASSERT_OK(disk_.Mount(GetParam()));
  ASSERT_OK(WriteDurably<"test.file">(disk_.mount_point() + "/file", "data"));
  ASSERT_OK(disk_.Unmount());
  ASSERT_OK(FormatDisk());
  EXPECT_EQ(Uuid(), kUuid);
  ASSERT_OK(fs().Check(*exec_, disk_.device(), CheckDepth::kQuick));
  ASSERT_OK(fs().Check(*exec_, disk_.device(), CheckDepth::kFull));
  ASSERT_OK(disk_.Mount(GetParam()));
  EXPECT_EQ(*ReadFile(disk_.mount_point() + "/file"), "data");
}

TEST_P(FileSystemTest, GrowsWhileItIsNotMounted) {
  ASSERT_OK(FormatDisk());
  ASSERT_OK(disk_.Mount(GetParam()));
  const int64_t before = disk_.MountedBytes();
  ASSERT_OK(WriteDurably<"test.file">(disk_.mount_point() + "/file", "data"));
  ASSERT_OK(disk_.Unmount());
  disk_.Grow(2 * kDiskSize);
  ASSERT_OK(fs().Resize(*exec_, disk_.device(), {}));
  ASSERT_OK(fs().Resize(*exec_, disk_.device(), {}));  // nothing to do
  ASSERT_OK(disk_.Mount(GetParam()));
  EXPECT_GT(disk_.MountedBytes(), before + static_cast<int64_t>(kDiskSize) * 9 / 10);
  EXPECT_EQ(*ReadFile(disk_.mount_point() + "/file"), "data");
}

TEST_P(FileSystemTest, GrowsWhileItIsMounted) {
  ASSERT_OK(FormatDisk());
  ASSERT_OK(disk_.Mount(GetParam()));
  const int64_t before = disk_.MountedBytes();
  disk_.Grow(2 * kDiskSize);
  const base::Status status = fs().Resize(*exec_, disk_.device(), MountPoint(disk_.mount_point()));
  if (GetParam() == std::string_view("ext4") && status.code() == StatusCode::kPermissionDenied) {
    // The error must say what to do, where the machine does not let root do it.
    EXPECT_THAT(std::string(base::Message(status)), HasSubstr("CAP_SYS_RESOURCE"));
    GTEST_SKIP() << "growing a mounted ext4 needs CAP_SYS_RESOURCE, which root lacks here";
  }
  ASSERT_OK(status);
  EXPECT_GT(disk_.MountedBytes(), before + static_cast<int64_t>(kDiskSize) * 9 / 10);
  ASSERT_OK(fs().Resize(*exec_, disk_.device(), MountPoint(disk_.mount_point())));
}

TEST_P(FileSystemTest, ACloneGetsAUuidOfItsOwnAndMountsBesideTheOriginal) {
  ASSERT_OK(FormatDisk());
  ASSERT_OK(disk_.Mount(GetParam()));
  ASSERT_OK(WriteDurably<"test.file">(disk_.mount_point() + "/file", "data"));
  const std::string original = Uuid();
  Disk clone(disk_);
  if (GetParam() == std::string_view("btrfs")) {
    // The kernel takes a second device with the UUID of a mounted btrfs for the same one.
    ASSERT_OK(disk_.Unmount());
  }
  ASSERT_OK(fs().NewUuid(*exec_, clone.device()));
  const auto found = ProbeSignature(clone.device());
  ASSERT_TRUE(found.ok() && found->has_value());
  EXPECT_NE((*found)->uuid, original);
  EXPECT_FALSE((*found)->uuid.empty());
  ASSERT_OK(clone.Mount(GetParam()));
  EXPECT_EQ(*ReadFile(clone.mount_point() + "/file"), "data");
}

TEST_P(FileSystemTest, MountsADeviceThatCannotBeWritten) {
  ASSERT_OK(FormatDisk());
  ASSERT_OK(disk_.Mount(GetParam()));
  ASSERT_OK(WriteDurably<"test.file">(disk_.mount_point() + "/file", "data"));
  Disk snapshot(disk_, true);
  ASSERT_OK(disk_.Unmount());
  std::vector<std::string> options = fs().ReadOnlyDeviceOptions();
  options.push_back("ro");
  ASSERT_OK(snapshot.Mount(GetParam(), options));
}

TEST_P(FileSystemTest, RefusesAnotherFileSystem) {
  const std::string_view other = GetParam() == std::string_view("xfs") ? "ext4" : "xfs";
  ASSERT_OK(FormatIfBlank(*exec_, disk_.device(), other, {}));
  const base::Status status = FormatDisk();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(base::Message(status)), HasSubstr(fmt::format("holds {} (", other)));
  EXPECT_EQ((*ProbeSignature(disk_.device()))->type, other);
}

INSTANTIATE_TEST_SUITE_P(All, FileSystemTest, testing::Values("ext4", "xfs", "btrfs"),
                         [](const auto& info) { return std::string(info.param); });

class FormatIfBlankTest : public testing::Test {
 protected:
  base::Status Format() { return FormatIfBlank(*exec_, disk_.device(), "ext4", {}); }
  void ExpectRefused(std::string_view why) {
    const base::Status status = Format();
    EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition) << base::ToString(status);
    EXPECT_THAT(std::string(base::Message(status)), HasSubstr(std::string(why)));
  }
  const std::unique_ptr<Exec> exec_ = NewHostExec();
  Disk disk_{16 * kMiB};
};

TEST_F(FormatIfBlankTest, ABlankDeviceHasNoSignature) {
  const auto found = ProbeSignature(disk_.device());
  ASSERT_TRUE(found.ok());
  EXPECT_FALSE(found->has_value());
}

TEST_F(FormatIfBlankTest, RefusesLuks) {
  std::string header("LUKS\xba\xbe\0\x01", 8);
  header += std::string("aes") + std::string(500, '\0');
  header.replace(168, 36, "11111111-2222-3333-4444-555555555555");
  disk_.Write(header, 0);
  ExpectRefused("crypto_LUKS");
}

TEST_F(FormatIfBlankTest, RefusesLvm) {
  std::string label(512, '\0');
  label.replace(0, 8, "LABELONE");
  label.replace(8, 8, std::string("\x01\0\0\0\0\0\0\0", 8));
  label.replace(20, 4, std::string("\x20\0\0\0", 4));
  label.replace(24, 8, "LVM2 001");
  disk_.Write(label, 512);
  // Without its checksum libblkid may not name it; it is not formatted in any case.
  EXPECT_EQ(Format().code(), StatusCode::kFailedPrecondition);
}

TEST_F(FormatIfBlankTest, RefusesSwap) {
  const auto made = exec_->Run({.argv = {"mkswap", disk_.device()}});
  ASSERT_TRUE(made.ok() && made->exit_code == 0) << made->err;
  ExpectRefused("holds swap");
}

TEST_F(FormatIfBlankTest, RefusesAPartitionTable) {
  std::string mbr(512, '\0');
  mbr[446] = '\x80';
  mbr[446 + 4] = '\x83';
  mbr[446 + 9] = '\x08';   // from sector 2048
  mbr[446 + 13] = '\x10';  // 4096 sectors
  mbr[510] = '\x55';
  mbr[511] = '\xaa';
  disk_.Write(mbr, 0);
  ExpectRefused("dos (partition table)");
}

TEST_F(FormatIfBlankTest, RefusesDataWithoutSignature) {
  disk_.Write("precious", 700000);
  ExpectRefused("first MiB holds data");
}

TEST_F(FormatIfBlankTest, RefusesDataAtTheVeryEnd) {
  disk_.Write("x", 16 * kMiB - 1);
  ExpectRefused("last MiB holds data");
}

TEST_F(FormatIfBlankTest, RefusesADamagedFileSystem) {
  ASSERT_OK(Format());
  disk_.Write("garbage", 1024 + 200);  // in the superblock, whose checksum no longer fits
  const base::Status status = FormatIfBlank(*exec_, disk_.device(), "xfs", {});
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition) << base::ToString(status);
}

TEST_F(FormatIfBlankTest, RefusesUnknownTypesAndTooSmallDevices) {
  EXPECT_EQ(FormatIfBlank(*exec_, disk_.device(), "ntfs", {}).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(FormatIfBlank(*exec_, disk_.device(), "xfs", {}).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(FormatIfBlank(*exec_, "/dev/none", "ext4", {}).code(), StatusCode::kNotFound);
}

TEST_F(FormatIfBlankTest, OnlyACleanExt4IsSparedItsCheck) {
  ASSERT_OK(Format());
  const long long now = time(nullptr);  // not before the file system's last check, its making
  const auto fresh = Superblock(disk_.device());
  EXPECT_TRUE(Ext4NeedsNoCheck(fresh, now));
  for (const size_t at : {0x0, 0x38, 0x3A, 0x60, 0xE8, 0x194, 0x3FC}) {
    auto torn = fresh;
    torn[at] ^= 4;
    EXPECT_FALSE(Ext4NeedsNoCheck(torn, now)) << "offset " << at;
  }
  ASSERT_OK(disk_.Mount("ext4"));
  EXPECT_FALSE(Ext4NeedsNoCheck(Superblock(disk_.device()), now)) << "in use: its journal waits";
  ASSERT_OK(disk_.Unmount());
  EXPECT_TRUE(Ext4NeedsNoCheck(Superblock(disk_.device()), now));
  ASSERT_OK(RunOk(*exec_, {.argv = {"tune2fs", "-i", "1d", disk_.device()}}).status());
  EXPECT_TRUE(Ext4NeedsNoCheck(Superblock(disk_.device()), now));
  EXPECT_FALSE(Ext4NeedsNoCheck(Superblock(disk_.device()), now + 2 * 86400)) << "a check is due";
}

TEST_F(FormatIfBlankTest, ChecksFindDamage) {
  ASSERT_OK(Format());
  disk_.Write(std::string(1024, '\xff'), 1024);
  const base::Status status =
      FindFileSystem("ext4")->Check(*exec_, disk_.device(), CheckDepth::kFull);
  EXPECT_EQ(status.code(), StatusCode::kDataLoss) << base::ToString(status);
}

}  // namespace
}  // namespace berth::platform
