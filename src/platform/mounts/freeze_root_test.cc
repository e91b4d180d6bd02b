#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "platform/devices/loop_device.h"
#include "platform/file_systems/file_system.h"
#include "platform/files/durable_file.h"
#include "platform/files/fake_temp_folder.h"
#include "platform/mounts/freeze.h"
#include "platform/mounts/mounter.h"
#include "platform/processes/exec.h"

namespace berth::platform {
namespace {

using base::StatusCode;
using std::chrono::milliseconds;
using std::chrono::seconds;

class FreezeTest : public testing::Test {
 protected:
  FreezeTest() {
    auto loop = AttachLoop(folder_.SparseFile("image", 32 << 20), {});
    EXPECT_TRUE(loop.ok());
    loop_ = *loop;
    EXPECT_TRUE(FormatIfBlank(*NewHostExec(), loop_.path, "ext4", {}).ok());
    EXPECT_TRUE(MakeFolders(mount_).ok());
    EXPECT_TRUE(mounter_->Mount({.source = loop_.path, .target = mount_, .fs_type = "ext4"}).ok());
  }
  ~FreezeTest() override {
    EXPECT_TRUE(ThawFileSystem(mount_).ok());
    EXPECT_TRUE(mounter_->Unmount(mount_).ok());
    EXPECT_TRUE(DetachLoop(loop_).ok());
  }
  // A write that ends when the file system is not frozen.
  bool CanWrite(milliseconds within) {
    const auto written = NewHostExec()->Run(
        {.argv = {"sh", "-c", "echo x > " + mount_ + "/probe"}, .timeout = within});
    return written.ok() && written->exit_code == 0;
  }
  const TempFolder folder_;
  const std::string mount_ = folder_ / "mnt";
  const std::unique_ptr<Mounter> mounter_ = NewMounter();
  LoopDevice loop_;
};

TEST_F(FreezeTest, WritersWaitUntilTheThaw) {
  auto frozen = FreezeFileSystem(mount_, seconds(20));
  ASSERT_TRUE(frozen.ok()) << base::ToString(frozen.status());
  std::atomic<bool> written = false;
  std::jthread writer([&] {
    EXPECT_TRUE(CanWrite(seconds(20)));
    written = true;
  });
  EXPECT_EQ(FreezeFileSystem(mount_, seconds(5)).status().code(), StatusCode::kFailedPrecondition);
  EXPECT_FALSE(written);
  EXPECT_TRUE((*frozen)->Thaw().ok());
  writer.join();
  EXPECT_TRUE(written);
}

TEST_F(FreezeTest, TheLimitThawsAndTheHolderLearnsIt) {
  auto frozen = FreezeFileSystem(mount_, milliseconds(200));
  ASSERT_TRUE(frozen.ok()) << base::ToString(frozen.status());
  EXPECT_TRUE(CanWrite(seconds(20)));
  EXPECT_EQ((*frozen)->Thaw().code(), StatusCode::kDeadlineExceeded);
}

// A snapshot of a volume whose pod ends at that moment must not make its unmount fail.
TEST_F(FreezeTest, AThawedFileSystemCanBeUnmountedAtOnce) {
  for (int i = 0; i < 50; ++i) {
    auto frozen = FreezeFileSystem(mount_, seconds(20));
    ASSERT_TRUE(frozen.ok()) << base::ToString(frozen.status());
    ASSERT_TRUE((*frozen)->Thaw().ok());
    const base::Status status = mounter_->Unmount(mount_);
    ASSERT_TRUE(status.ok()) << base::ToString(status);
    ASSERT_TRUE(mounter_->Mount({.source = loop_.path, .target = mount_, .fs_type = "ext4"}).ok());
  }
}

// The freeze has to write much first, and so takes longer than its limit.
TEST_F(FreezeTest, AFileSystemThatDidNotComeToRestInTimeCanBeUnmountedAtOnce) {
  const std::string text(24 << 20, 'x');
  for (int i = 0; i < 10; ++i) {
    {
      const base::UniqueFd fd(
          open((mount_ + "/much").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
      ASSERT_TRUE(WriteAll(fd.get(), text).ok());
    }
    const auto frozen = FreezeFileSystem(mount_, milliseconds(1));
    if (frozen.ok()) {
      (*frozen)->Thaw().IgnoreError();  // this thread was late, and not the freeze
    } else {
      EXPECT_EQ(frozen.status().code(), StatusCode::kDeadlineExceeded) << frozen.status();
    }
    const base::Status status = mounter_->Unmount(mount_);
    ASSERT_TRUE(status.ok()) << base::ToString(status);
    ASSERT_TRUE(mounter_->Mount({.source = loop_.path, .target = mount_, .fs_type = "ext4"}).ok());
  }
}

TEST_F(FreezeTest, DroppingTheHolderThaws) {
  {
    ASSERT_TRUE(FreezeFileSystem(mount_, seconds(60)).ok());
  }
  EXPECT_TRUE(CanWrite(seconds(20)));
}

TEST_F(FreezeTest, TheDeathOfTheHolderThaws) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t holder = fork();
  if (holder == 0) {
    const auto frozen = FreezeFileSystem(mount_, seconds(60));
    const char ok = frozen.ok() ? 'y' : 'n';
    if (write(ends[1], &ok, 1) == 1) raise(SIGKILL);
    _exit(1);
  }
  char ok = 0;
  ASSERT_EQ(read(ends[0], &ok, 1), 1);
  close(ends[0]);
  close(ends[1]);
  EXPECT_EQ(ok, 'y');
  ASSERT_EQ(waitpid(holder, nullptr, 0), holder);
  EXPECT_TRUE(CanWrite(seconds(20)));
}

TEST_F(FreezeTest, NamesWhatCannotBeFrozen) {
  EXPECT_EQ(FreezeFileSystem(folder_ / "none", seconds(5)).status().code(), StatusCode::kNotFound);
  EXPECT_FALSE(FreezeFileSystem("/proc", seconds(5)).ok());
}

}  // namespace
}  // namespace berth::platform
