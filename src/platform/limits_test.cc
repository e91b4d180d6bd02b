#include "platform/limits.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace berth::platform {
namespace {

TEST(LimitsTest, TheSoftLimitOfDescriptorsBecomesTheHardOne) {
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit low = before;
  low.rlim_cur = 64;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  EXPECT_TRUE(RaiseDescriptorLimit().ok());
  rlimit after = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &after), 0);
  EXPECT_EQ(after.rlim_cur, before.rlim_max);
}

TEST(LimitsTest, HiddenMemoryIsNotDumped) {
  const pid_t pid = fork();
  ASSERT_GE(pid, 0);
  if (pid == 0) {
    if (prctl(PR_GET_DUMPABLE) != 1) _exit(1);
    if (!HideMemory().ok()) _exit(2);
    rlimit core = {.rlim_cur = 1, .rlim_max = 1};
    if (getrlimit(RLIMIT_CORE, &core) != 0 || core.rlim_cur != 0 || core.rlim_max != 0) _exit(3);
    if (prctl(PR_GET_DUMPABLE) != 0) _exit(4);
    signal(SIGQUIT, SIG_DFL);
    raise(SIGQUIT);
    _exit(5);
  }
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  ASSERT_TRUE(WIFSIGNALED(status)) << "exit " << WEXITSTATUS(status);
  EXPECT_EQ(WTERMSIG(status), SIGQUIT);
  EXPECT_FALSE(WCOREDUMP(status));
}

}  // namespace
}  // namespace berth::platform
