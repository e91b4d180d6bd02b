#include "platform/processes/daemon.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/assert_ok.h"
#include "base/files/process_stat.h"

namespace berth::platform {
namespace {

class DaemonTest : public testing::Test {
 protected:
  void SetUp() override {
    daemon_.pid = fork();
    ASSERT_GE(daemon_.pid, 0);
    if (daemon_.pid == 0) {
      for (;;) pause();
    }
    daemon_.start_time = base::ReadStartTicks(daemon_.pid);
    ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before_), 0);
  }
  void TearDown() override {
    AllowDescriptors(before_.rlim_cur);
    kill(daemon_.pid, SIGKILL);
    waitpid(daemon_.pid, nullptr, 0);
  }
  void AllowDescriptors(rlim_t count) {
    const rlimit limit = {.rlim_cur = count, .rlim_max = before_.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  }

  DaemonId daemon_;
  rlimit before_ = {};
};

TEST_F(DaemonTest, WithoutDescriptorsALivingDaemonIsNotTakenForDead) {
  AllowDescriptors(0);
  const auto opened = OpenDaemon(daemon_);
  const base::Status killed = KillDaemon(daemon_, std::chrono::seconds(5));
  AllowDescriptors(before_.rlim_cur);
  EXPECT_FALSE(opened.ok());
  EXPECT_FALSE(killed.ok());
  const auto again = OpenDaemon(daemon_);
  ASSERT_OK(again);
  EXPECT_TRUE(again->valid());
}

TEST_F(DaemonTest, ADaemonThatEndedAndAnotherProcessWithItsNumberAreNotTheDaemon) {
  const DaemonId another = {.pid = daemon_.pid, .start_time = daemon_.start_time + 1};
  const auto other = OpenDaemon(another);
  ASSERT_OK(other);
  EXPECT_FALSE(other->valid());
  ASSERT_OK(KillDaemon(another, std::chrono::seconds(5)));
  ASSERT_EQ(kill(daemon_.pid, 0), 0);
  ASSERT_OK(KillDaemon(daemon_, std::chrono::seconds(5)));
  const auto ended = OpenDaemon(daemon_);
  ASSERT_OK(ended);
  EXPECT_FALSE(ended->valid());
}

TEST_F(DaemonTest, OnlyItsOwnEndIsTakenFromTheKernel) {
  ASSERT_EQ(kill(daemon_.pid, SIGKILL), 0);
  siginfo_t end = {};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(daemon_.pid), &end, WEXITED | WNOWAIT), 0);
  // Another child of this process has the pid that the daemon had.
  const DaemonId earlier = {.pid = daemon_.pid, .start_time = daemon_.start_time + 1};
  ASSERT_OK(KillDaemon(earlier, std::chrono::seconds(5)));
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(daemon_.pid), &end, WEXITED | WNOHANG | WNOWAIT), 0)
      << "the end of another child was taken";
  ASSERT_OK(KillDaemon(daemon_, std::chrono::seconds(5)));
  EXPECT_EQ(waitpid(daemon_.pid, nullptr, WNOHANG), -1);
}

}  // namespace
}  // namespace berth::platform
