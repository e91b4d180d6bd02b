#include "platform/processes/process_end.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "platform/processes/child.h"

namespace berth::platform {
namespace {

void WaitForEnd(const base::UniqueFd& pidfd) {
  pollfd end = {.fd = pidfd.get(), .events = POLLIN, .revents = 0};
  ASSERT_EQ(poll(&end, 1, 10'000), 1);
}

TEST(ProcessEndTest, OfOneThatItsParentHasNotFetched) {
  const pid_t pid = fork();
  if (pid == 0) _exit(pause() == 0 ? 0 : 7);
  const base::UniqueFd pidfd = OpenPid(pid);
  ASSERT_TRUE(pidfd.valid());
  EXPECT_EQ(ReadWaitStatus(pid, pidfd.get()), std::nullopt) << "it runs";
  kill(pid, SIGKILL);
  WaitForEnd(pidfd);
  EXPECT_EQ(DescribeEnd(ReadWaitStatus(pid, pidfd.get())), "was killed by signal 9 (SIGKILL)");
  waitpid(pid, nullptr, 0);
}

TEST(ProcessEndTest, OfOneThatIsGone) {
  const pid_t pid = fork();
  if (pid == 0) _exit(3);
  const base::UniqueFd pidfd = OpenPid(pid);
  ASSERT_TRUE(pidfd.valid());
  waitpid(pid, nullptr, 0);
  const std::string said = DescribeEnd(ReadWaitStatus(pid, pidfd.get()));
  // Kernels before 6.15 have forgotten it.
  if (said != "ended (how is not known)") EXPECT_EQ(said, "exited with status 3");
}

}  // namespace
}  // namespace berth::platform
