#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>

#include "base/assert_ok.h"
#include "base/unique_fd.h"
#include "platform/devices/fake_disk.h"
#include "platform/mounts/fake_lost_mount.h"
#include "platform/processes/exec.h"
#include "platform/walks/relabel.h"

namespace berth::platform {
namespace {

using base::Status;
using base::StatusCode;
using base::UniqueFd;
using testing::HasSubstr;

constexpr const char* kLabel = "system_u:object_r:container_file_t:s0:c1,c2";
constexpr const char* kAttribute = "security.selinux";

// As it is stored, with the zero at its end; "": there is none.
std::string StoredLabel(const std::string& path) {
  std::array<char, 256> text;
  const ssize_t size = lgetxattr(path.c_str(), kAttribute, text.data(), text.size());
  return size < 0 ? "" : std::string(text.data(), static_cast<size_t>(size));
}

Status Relabel(const std::string& path,
               std::chrono::milliseconds patience = std::chrono::minutes(2),
               const std::function<bool()>& cancelled = nullptr) {
  const UniqueFd root(open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  EXPECT_TRUE(root.valid());
  return RelabelFiles(root.get(), "the volume",
                      {.label = kLabel, .cancelled = cancelled, .patience = patience});
}

class RelabelFilesTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK(RunOk(*exec_, {.argv = {"mkfs.ext4", "-q", disk_.device()}}));
    ASSERT_OK(disk_.Mount("ext4"));
    std::filesystem::create_directories(At("folder/below"));
    std::ofstream(At("folder/below/file")) << "x";
    std::ofstream(outside_) << "x";
    std::filesystem::create_symlink(outside_, At("folder/link"));
    ASSERT_EQ(mkfifo(At("fifo").c_str(), 0600), 0);
    ASSERT_EQ(mknod(At("device").c_str(), S_IFCHR | 0600, makedev(1, 3)), 0);
  }
  std::string At(std::string_view name) const {
    return fmt::format("{}/{}", disk_.mount_point(), name);
  }
  static timespec ChangeTime(const std::string& path) {
    struct stat st = {};
    EXPECT_EQ(lstat(path.c_str(), &st), 0);
    return st.st_ctim;
  }

  const TempFolder folder_;
  const std::string outside_ = folder_ / "outside";
  const std::unique_ptr<Exec> exec_ = NewHostExec();
  Disk disk_{64 * kMiB};
};

TEST_F(RelabelFilesTest, EachFileHasTheLabelWhateverItIs) {
  ASSERT_OK(Relabel(disk_.mount_point()));
  const std::string stored(kLabel, std::string_view(kLabel).size() + 1);
  for (const char* name : {".", "folder", "folder/below", "folder/below/file", "folder/link",
                           "fifo", "device", "lost+found"}) {
    EXPECT_EQ(StoredLabel(At(name)), stored) << name;
  }
  EXPECT_EQ(StoredLabel(outside_), "") << "a symlink led out of the volume";
}

TEST_F(RelabelFilesTest, OnlyFilesWithAnotherLabelAreWritten) {
  ASSERT_OK(Relabel(disk_.mount_point()));
  const std::string other = "system_u:object_r:container_file_t:s0:c3";
  ASSERT_EQ(setxattr(At("fifo").c_str(), kAttribute, other.c_str(), other.size(), 0), 0);
  const timespec before = ChangeTime(At("folder/below/file"));
  ASSERT_OK(Relabel(disk_.mount_point()));
  EXPECT_STREQ(StoredLabel(At("fifo")).c_str(), kLabel);
  const timespec after = ChangeTime(At("folder/below/file"));
  EXPECT_EQ(after.tv_sec, before.tv_sec);
  EXPECT_EQ(after.tv_nsec, before.tv_nsec);
}

TEST_F(RelabelFilesTest, AMountInsideIsLeftAlone) {
  ASSERT_EQ(mount("inside", At("folder/below").c_str(), "tmpfs", 0, nullptr), 0);
  const Status done = Relabel(disk_.mount_point());
  const std::string inside = StoredLabel(At("folder/below"));
  ASSERT_EQ(umount2(At("folder/below").c_str(), MNT_DETACH), 0);
  ASSERT_OK(done);
  EXPECT_STRNE(inside.c_str(), kLabel);
  EXPECT_STREQ(StoredLabel(At("folder/link")).c_str(), kLabel);
}

TEST_F(RelabelFilesTest, AFileThatCannotBeLabelledIsNamed) {
  const UniqueFd fixed(open(At("folder/below/file").c_str(), O_RDONLY | O_CLOEXEC));
  int flags = FS_IMMUTABLE_FL;
  if (ioctl(fixed.get(), FS_IOC_SETFLAGS, &flags) != 0) GTEST_SKIP() << "no immutable files here";
  const Status status = Relabel(disk_.mount_point());
  flags = 0;
  ASSERT_EQ(ioctl(fixed.get(), FS_IOC_SETFLAGS, &flags), 0);
  EXPECT_EQ(status.code(), StatusCode::kPermissionDenied);
  EXPECT_THAT(base::Message(status), HasSubstr("relabel 'the volume': set the SELinux label of '" +
                                               At("folder/below/file") + "'"));
}

TEST_F(RelabelFilesTest, AFileSystemWithoutLabelsIsRefused) {
  const Status status = Relabel("/proc");
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(base::Message(status), HasSubstr("its file system keeps none"));
}

TEST_F(RelabelFilesTest, ACallerWhoNoLongerWantsItIsNotKept) {
  EXPECT_EQ(Relabel(disk_.mount_point(), std::chrono::minutes(2), [] { return true; }).code(),
            StatusCode::kCancelled);
}

// A file system whose server takes each request and answers none.
TEST(RelabelStuckFilesTest, AreGivenUp) {
  const TempFolder folder;
  const std::string target = folder / "volume";
  ASSERT_OK(MakeFolders(target));
  const auto mount = LostMount::Make(target);
  ASSERT_OK(mount);
  ASSERT_OK((*mount)->Greet());
  EXPECT_EQ(Relabel(target, std::chrono::milliseconds(200)).code(), StatusCode::kDeadlineExceeded);
  (*mount)->Die();
}

}  // namespace
}  // namespace berth::platform
