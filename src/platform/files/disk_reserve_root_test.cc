// The reserve on a disk that is full. Needs root, to mount a small file system.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "base/unique_fd.h"
#include "platform/devices/loop_device.h"
#include "platform/file_systems/file_system.h"
#include "platform/files/disk_reserve.h"
#include "platform/files/durable_file.h"
#include "platform/files/fake_temp_folder.h"
#include "platform/files/record_folder.h"
#include "platform/mounts/mounter.h"
#include "platform/processes/exec.h"

namespace berth::platform {
namespace {

constexpr int64_t kReserveMiB = int64_t{1} << 20;

class DiskReserveRootTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(MakeFolders(disk_).ok());
    ASSERT_EQ(mount("tmpfs", disk_.c_str(), "tmpfs", 0, "size=64m"), 0);
    ASSERT_TRUE(MakeFolders(records_).ok());
  }

  std::unique_ptr<DiskReserve> OpenReserve() const {
    auto reserve = DiskReserve::Open({.folder = disk_, .check = std::chrono::milliseconds(20)});
    EXPECT_TRUE(reserve.ok()) << reserve.status();
    return reserve.ok() ? *std::move(reserve) : nullptr;
  }
  int64_t Free() const {
    struct statvfs st{};
    EXPECT_EQ(statvfs(disk_.c_str(), &st), 0);
    return static_cast<int64_t>(st.f_bavail * st.f_frsize);
  }
  // Takes all room, to the last byte.
  void Fill() const {
    const base::UniqueFd fd(
        open(ballast_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
    const std::string block(64 * 1024, 'x');
    while (write(fd.get(), block.data(), block.size()) > 0) {
    }
    ASSERT_EQ(Free(), 0);
  }
  bool IsKept() const {
    struct stat st{};
    return stat((disk_ + "/.berth-reserve").c_str(), &st) == 0 && st.st_blocks * 512 >= kReserveMiB;
  }

  TempFolder folder_;
  const std::string disk_ = folder_ / "disk";
  const std::string records_ = disk_ + "/a/b";
  const std::string ballast_ = disk_ + "/ballast";
};

TEST_F(DiskReserveRootTest, ARecordIsWrittenOnAFullDiskAndTheRoomIsKeptAgainLater) {
  const auto reserve = OpenReserve();
  EXPECT_TRUE(IsKept());
  EXPECT_FALSE(reserve->IsGivenUp());
  EXPECT_FALSE(reserve->GiveUp()) << "the disk is not full";
  Fill();
  EXPECT_TRUE(WriteDurably<"test.file">(records_ + "/one", std::string(10'000, 'r')).ok());
  EXPECT_TRUE(reserve->IsGivenUp());
  EXPECT_GT(Free(), kReserveMiB);
  Fill();
  EXPECT_EQ(WriteDurably<"test.file">(records_ + "/two", std::string(10'000, 'r')).code(),
            base::StatusCode::kResourceExhausted)
      << "it is given up once";
  EXPECT_TRUE(ReadFile(records_ + "/one").ok());

  std::filesystem::remove(ballast_);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  // The file gets its blocks before it gets its size.
  while ((!IsKept() || reserve->IsGivenUp()) && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::yield();
  }
  EXPECT_TRUE(IsKept());
  EXPECT_FALSE(reserve->IsGivenUp());
}

// Two writers may find no room at once, and only one of them empties the file.
TEST_F(DiskReserveRootTest, AWriteIsWorthRepeatingAlsoIfAnotherWriterGaveTheReserveUp) {
  const auto reserve = OpenReserve();
  Fill();
  EXPECT_TRUE(reserve->GiveUp());
  EXPECT_TRUE(reserve->GiveUp());
  EXPECT_TRUE(GiveUpReserve(records_));
  Fill();
  EXPECT_FALSE(reserve->GiveUp()) << "its room is used up";
}

TEST_F(DiskReserveRootTest, ARecordFolderUsesItToo) {
  const auto records = RecordFolder::Open(records_);
  ASSERT_TRUE(records.ok()) << records.status();
  const auto reserve = OpenReserve();
  Fill();
  EXPECT_TRUE((*records)->Write<"test.file">("one.json", std::string(10'000, 'r')).ok());
  EXPECT_TRUE(reserve->IsGivenUp());
}

TEST_F(DiskReserveRootTest, AStartOnAFullDiskHasRoom) {
  OpenReserve().reset();
  EXPECT_TRUE(IsKept()) << "the file stays for the next start";
  Fill();
  const auto reserve = OpenReserve();
  EXPECT_TRUE(reserve->IsGivenUp());
  EXPECT_GT(Free(), kReserveMiB);
}

TEST_F(DiskReserveRootTest, OnlyItsOwnFileIsEmptied) {
  const std::string reserve_path = disk_ + "/.berth-reserve";
  const std::string victim = disk_ + "/victim";
  OpenReserve().reset();
  std::filesystem::rename(reserve_path, victim);
  const auto size = std::filesystem::file_size(victim);
  Fill();
  for (const bool symlink : {true, false}) {
    symlink ? std::filesystem::create_symlink(victim, reserve_path)
            : std::filesystem::create_hard_link(victim, reserve_path);
    const auto reserve = OpenReserve();
    EXPECT_FALSE(reserve->GiveUp());
    EXPECT_FALSE(GiveUpReserve(records_));
    EXPECT_EQ(std::filesystem::file_size(victim), size);
    std::filesystem::remove(reserve_path);
  }
}

TEST_F(DiskReserveRootTest, ADiskThatWasNeverRoomyHasNone) {
  Fill();
  const auto reserve = OpenReserve();
  EXPECT_FALSE(reserve->IsGivenUp()) << "so that a store on it still takes what fits";
  EXPECT_FALSE(HasReserve(records_));
}

// ext4 keeps blocks for root: a disk without a block for others is not full for Berth.
TEST(Ext4ReserveRootTest, RoomThatOnlyRootHasIsRoom) {
  const TempFolder folder;
  const std::string disk = folder / "disk";
  const auto loop = AttachLoop(folder.SparseFile("image", 256 << 20), {});
  ASSERT_TRUE(loop.ok()) << loop.status();
  ASSERT_TRUE(FormatIfBlank(*NewHostExec(), loop->path, "ext4", {}).ok());
  ASSERT_TRUE(MakeFolders(disk).ok());
  const auto mounter = NewMounter();
  ASSERT_TRUE(mounter->Mount({.source = loop->path, .target = disk, .fs_type = "ext4"}).ok());
  // A fifth of the disk is root's.
  const auto tuned = NewHostExec()->Run(
      {.argv = {"tune2fs", "-m", "20", loop->path}, .timeout = std::chrono::seconds(30)});
  ASSERT_TRUE(tuned.ok() && tuned->exit_code == 0) << tuned.status();
  const auto read = [&disk] {
    struct statvfs st{};
    EXPECT_EQ(statvfs(disk.c_str(), &st), 0);
    return st;
  };
  const auto open_reserve = [&disk] {
    return *DiskReserve::Open({.folder = disk, .check = std::chrono::hours(1)});
  };
  open_reserve().reset();
  {
    const base::UniqueFd fd(
        open((disk + "/ballast").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    const struct statvfs st = read();
    ASSERT_EQ(posix_fallocate(fd.get(), 0, static_cast<off_t>(st.f_bavail * st.f_frsize)), 0);
    ASSERT_EQ(read().f_bavail, 0U);
    const auto reserve = open_reserve();
    EXPECT_FALSE(reserve->IsGivenUp()) << "root can write";
    EXPECT_FALSE(reserve->GiveUp());

    const std::string block(256 * 1024, 'x');
    ASSERT_GE(lseek(fd.get(), 0, SEEK_END), 0);
    for (size_t size = block.size(); size > 0; size /= 2) {
      while (write(fd.get(), block.data(), size) > 0) {
      }
    }
    EXPECT_TRUE(reserve->GiveUp()) << "the disk is full for root too";
    EXPECT_TRUE(reserve->IsGivenUp());
  }
  EXPECT_TRUE(mounter->Unmount(disk).ok());
  EXPECT_TRUE(DetachLoop(*loop).ok());
}

TEST_F(DiskReserveRootTest, OnlyAReserveOnTheSameFileSystemCounts) {
  const auto reserve = OpenReserve();
  EXPECT_TRUE(HasReserve(records_ + "/not/there/yet"));
  EXPECT_FALSE(HasReserve(folder_.path()));
  ASSERT_EQ(mount("tmpfs", records_.c_str(), "tmpfs", 0, "size=1m"), 0);
  EXPECT_FALSE(HasReserve(records_));
  EXPECT_EQ(umount(records_.c_str()), 0);
}

}  // namespace
}  // namespace berth::platform
