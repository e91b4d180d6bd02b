#include "platform/processes/child.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "platform/files/durable_file.h"
#include "platform/files/fake_temp_folder.h"

namespace berth::platform {
namespace {

using base::StatusCode;
using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(RunInChild, GivesTheResultOfTheBody) {
  EXPECT_TRUE(RunInChild("work", seconds(10), [] { return 0; }).ok());
  const base::Status status = RunInChild("work", seconds(10), [] { return EBUSY; });
  EXPECT_EQ(base::ToString(status), "FAILED_PRECONDITION: work: Device or resource busy");
}

TEST(RunInChild, RunsInAnotherProcess) {
  const pid_t self = getpid();
  EXPECT_TRUE(
      RunInChild("work", seconds(10), [self] { return getpid() == self ? EPERM : 0; }).ok());
}

TEST(RunInChild, BringsAReplyBackOnlyOnSuccess) {
  const auto answer = [](int error) {
    return AskChild<int>("work", seconds(10), [error](int& reply) {
      reply = 42;
      return error;
    });
  };
  EXPECT_EQ(*answer(0), 42);
  EXPECT_EQ(answer(EIO).status().code(), StatusCode::kInternal);
}

TEST(RunInChild, GivesUpOnAChildThatHangs) {
  const auto start = std::chrono::steady_clock::now();
  const base::Status status = RunInChild("stat '/dead'", milliseconds(50), [] {
    for (;;) pause();
    return 0;
  });
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(base::Message(status), "stat '/dead': no answer within 50 ms");
  EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(5));
}

TEST(RunInChild, SaysThatTheChildDied) {
  const base::Status status = RunInChild("work", seconds(10), [] {
    kill(getpid(), SIGKILL);
    return 0;
  });
  EXPECT_EQ(status.code(), StatusCode::kInternal);
}

TEST(RunInChild, LeavesNoZombie) {
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(RunInChild("work", seconds(10), [] { return 0; }).ok());
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
}

// Otherwise a child that hangs in the kernel would keep the next agent from starting, or keep an
// unrelated volume busy.
TEST(RunInChild, HasTheDescriptorsThatItIsGivenAndNoOther) {
  const TempFolder folder;
  const auto lock = LockFile(folder / "lock");
  ASSERT_TRUE(lock.ok());
  const base::UniqueFd first(open("/dev/null", O_RDONLY | O_CLOEXEC));
  const base::UniqueFd between(open("/dev/null", O_RDONLY | O_CLOEXEC));
  const base::UniqueFd last(open("/dev/null", O_RDONLY | O_CLOEXEC));
  const auto look = [held = lock->get(), first = first.get(), between = between.get(),
                     last = last.get()] {
    if (fcntl(held, F_GETFD) != -1 || fcntl(between, F_GETFD) != -1) return EBUSY;
    return fcntl(first, F_GETFD) != -1 && fcntl(last, F_GETFD) != -1 ? 0 : EBADF;
  };
  const auto looked = RunInChild("work", seconds(10), look, {last.get(), first.get()});
  EXPECT_TRUE(looked.ok()) << looked;
  for (const int fd : {lock->get(), first.get(), between.get(), last.get()}) {
    EXPECT_NE(fcntl(fd, F_GETFD), -1);
  }
}

}  // namespace
}  // namespace berth::platform
