#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "base/assert_ok.h"
#include "platform/files/durable_file.h"
#include "platform/files/fake_temp_folder.h"
#include "platform/mounts/fake_lost_mount.h"
#include "platform/walks/ownership.h"

namespace berth::platform {
namespace {

using base::Status;
using base::StatusCode;
using base::UniqueFd;
using std::chrono::milliseconds;
using std::chrono::seconds;

// A file system whose server answered the mount, and since then takes each request and answers
// none: the kernel never lets a caller go, not even after SIGKILL.
class StuckFsGroupTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK(MakeFolders(target_));
    auto mount = LostMount::Make(target_);
    ASSERT_OK(mount.status());
    mount_ = *std::move(mount);
    ASSERT_OK(mount_->Greet());
  }

  // False after ten seconds.
  static bool Becomes(const std::function<bool()>& condition) {
    const auto deadline = std::chrono::steady_clock::now() + seconds(10);
    while (!condition()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::sleep_for(milliseconds(5));
    }
    return true;
  }

  Status Give(milliseconds patience) const {
    return ApplyFsGroup(target_, {.group = 4242, .patience = patience});
  }

  const TempFolder folder_;
  const std::string target_ = folder_ / "volume";
  std::unique_ptr<LostMount> mount_;
};

TEST_F(StuckFsGroupTest, IsGivenUpAndNotTriedAgainUntilItIsOver) {
  EXPECT_EQ(Give(milliseconds(200)).code(), StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(mount_->TakeRequest()) << "it came as far as the server";
  EXPECT_EQ(Give(milliseconds(200)).code(), StatusCode::kUnavailable);
  mount_->Die();
  Status status;
  EXPECT_TRUE(Becomes([&] {
    status = Give(seconds(10));
    return status.code() != StatusCode::kUnavailable;
  }));
  EXPECT_NE(base::Message(status).find("open"), std::string::npos) << status;
}

TEST_F(StuckFsGroupTest, KeepsNoLockOfAProcessThatWasKilled) {
  const std::string path = folder_ / "lock";
  const pid_t pid = fork();
  if (pid == 0) {
    mount_->Die();  // its copy of the server's end
    const UniqueFd lock(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    if (flock(lock.get(), LOCK_EX) == 0) (void)Give(std::chrono::hours(1));
    _exit(1);
  }
  ASSERT_GT(pid, 0);
  ASSERT_TRUE(mount_->TakeRequest());
  const UniqueFd lock(open(path.c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_TRUE(lock.valid());
  EXPECT_NE(flock(lock.get(), LOCK_EX | LOCK_NB), 0);
  ASSERT_EQ(kill(pid, SIGKILL), 0);
  EXPECT_TRUE(Becomes([&] { return flock(lock.get(), LOCK_EX | LOCK_NB) == 0; }));
  EXPECT_EQ(waitpid(pid, nullptr, WNOHANG), 0) << "the kernel was to keep its thread";
  mount_->Die();
  EXPECT_EQ(waitpid(pid, nullptr, 0), pid);
}

}  // namespace
}  // namespace berth::platform
