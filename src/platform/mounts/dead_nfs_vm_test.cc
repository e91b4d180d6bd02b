// Tests with an NFS mount whose server has died: the code that reads and changes mounts must not
// hang. tests/vm runs them; its script serves 127.0.0.1:/ by the kernel's NFS server.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "base/assert_ok.h"
#include "base/unique_fd.h"
#include "platform/files/durable_file.h"
#include "platform/files/fake_temp_folder.h"
#include "platform/mounts/mounter.h"
#include "platform/mounts/safe_path.h"
#include "platform/processes/child.h"
#include "platform/processes/exec.h"
#include "platform/walks/usage.h"

namespace berth::platform {
namespace {

using base::StatusCode;
using std::chrono::seconds;

class DeadNfsTest : public testing::Test {
 protected:
  void SetUp() override {
    for (const std::string& path : {mount_point_, other_}) ASSERT_OK(MakeFolders(path, 0755));
    ASSERT_OK(MountNfs());
  }
  void TearDown() override {
    // When the server is back, everything that still waits for it goes on.
    EXPECT_TRUE(SetServer("up").ok());
    EXPECT_TRUE(mounter_->UnmountLazy(mount_point_).ok());
  }
  // While the loopback device is down, the server does not answer, as if its machine were dead.
  base::Status SetServer(const std::string& up_or_down) {
    return RunOk(*exec_, {.argv = {"ip", "link", "set", "lo", up_or_down}}).status();
  }
  base::Status MountNfs() {
    // The default is "hard": a process that waits for the server waits for ever.
    return mounter_->Mount({.source = "127.0.0.1:/",
                            .target = mount_point_,
                            .fs_type = "nfs4",
                            .options = {"vers=4.2", "addr=127.0.0.1", "clientaddr=127.0.0.1"}});
  }
  bool IsMounted() {
    const auto table = mounter_->List();
    EXPECT_TRUE(table.ok()) << base::ToString(table.status());
    return table.ok() && FindMount(*table, mount_point_) != nullptr;
  }
  // Leaves data in the page cache that an unmount has to send to the server. It writes through a
  // mapping, because the close of a written file would send the data.
  void WriteWithoutSync() {
    constexpr size_t kBytes = 4096;
    const base::UniqueFd fd(open(File().c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
    ASSERT_EQ(ftruncate(fd.get(), kBytes), 0);
    void* page = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
    ASSERT_NE(page, MAP_FAILED);
    memcpy(page, "late", 4);
    ASSERT_EQ(munmap(page, kBytes), 0);
  }
  std::string File() const { return mount_point_ + "/file"; }

  const TempFolder folder_;
  const std::string mount_point_ = folder_ / "nfs", other_ = folder_ / "other";
  const std::unique_ptr<Exec> exec_ = NewHostExec();
  const std::unique_ptr<Mounter> mounter_ = NewMounter();
};

TEST_F(DeadNfsTest, AServerThatLivesIsMountedWrittenAndUnmounted) {
  ASSERT_OK(WriteDurably<"test.file">(File(), "data"));
  ASSERT_OK(mounter_->Unmount(mount_point_));
  EXPECT_FALSE(IsMounted());
  EXPECT_NE(access(File().c_str(), F_OK), 0);
  ASSERT_OK(MountNfs());
  EXPECT_EQ(*ReadFile(File()), "data");
}

TEST_F(DeadNfsTest, TheMountTableIsReadAndOtherVolumesAreMountedBesideAHungMount) {
  ASSERT_OK(WriteDurably<"test.file">(File(), "data"));
  ASSERT_OK(SetServer("down"));
  const std::string file = File() + "-other";
  const auto look = [file](struct stat& st) { return stat(file.c_str(), &st) == 0 ? 0 : errno; };
  EXPECT_EQ(AskChild<struct stat>("stat", seconds(2), look).status().code(),
            StatusCode::kDeadlineExceeded)
      << "the mount does not hang: this test proves nothing";
  EXPECT_TRUE(IsMounted());
  ASSERT_OK(mounter_->Mount({.source = "tmpfs", .target = other_, .fs_type = "tmpfs"}));
  ASSERT_OK(mounter_->Unmount(other_));
}

TEST_F(DeadNfsTest, UsageOfAHungMountHasADeadline) {
  ASSERT_OK(SetServer("down"));
  EXPECT_EQ(GetFileSystemUsage(mount_point_, seconds(2)).status().code(),
            StatusCode::kDeadlineExceeded);
}

TEST_F(DeadNfsTest, AnUnmountThatMustWriteGivesUpAndALazyOneDetachesAtOnce) {
  WriteWithoutSync();
  ASSERT_OK(SetServer("down"));
  EXPECT_EQ(mounter_->Unmount(mount_point_).code(), StatusCode::kDeadlineExceeded);
  ASSERT_OK(mounter_->UnmountLazy(mount_point_));
  EXPECT_FALSE(IsMounted());
}

}  // namespace
}  // namespace berth::platform
