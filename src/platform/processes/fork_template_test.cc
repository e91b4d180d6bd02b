#include "platform/processes/fork_template.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <thread>
#include <vector>

#include "platform/processes/child.h"

namespace berth::platform {
namespace {

std::chrono::steady_clock::time_point InAMinute() {
  return std::chrono::steady_clock::now() + std::chrono::minutes(1);
}

// Sends the pids of the worker and of its parent, and waits until the other end is closed.
void TellPids(int socket) {
  const pid_t pids[2] = {getpid(), getppid()};
  send(socket, pids, sizeof(pids), MSG_NOSIGNAL);
  char byte = 0;
  while (recv(socket, &byte, 1, 0) > 0) {
  }
}

struct Pids {
  pid_t worker = 0;
  pid_t parent = 0;
};

Pids ReceivePids(const ForkTemplate::Worker& worker) {
  Pids pids;
  if (WaitReadable(worker.socket.get(), InAMinute())) {
    recv(worker.socket.get(), &pids, sizeof(pids), 0);
  }
  return pids;
}

TEST(ForkTemplateTest, WorkersAreChildrenOfOneTemplateThatIsMadeOnce) {
  ForkTemplate fork_template(TellPids);
  ASSERT_TRUE(fork_template.Prepare().ok());
  ASSERT_TRUE(fork_template.Prepare().ok());
  const auto first = fork_template.StartWorker("ask");
  const auto second = fork_template.StartWorker("ask");
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_TRUE(second.ok()) << second.status();
  const Pids one = ReceivePids(*first);
  const Pids two = ReceivePids(*second);
  EXPECT_EQ(one.worker, first->pid);
  EXPECT_EQ(two.worker, second->pid);
  EXPECT_NE(one.worker, two.worker);
  EXPECT_EQ(one.parent, two.parent);
  EXPECT_NE(one.parent, getpid());
}

TEST(ForkTemplateTest, AWorkerThatEndsIsSeenByItsDescriptor) {
  ForkTemplate fork_template(TellPids);
  auto worker = fork_template.StartWorker("ask");
  ASSERT_TRUE(worker.ok()) << worker.status();
  ReceivePids(*worker);
  EXPECT_FALSE(WaitReadable(worker->ended.get(), std::chrono::steady_clock::now()));
  worker->socket.Reset();
  EXPECT_TRUE(WaitReadable(worker->ended.get(), InAMinute()));
}

TEST(ForkTemplateTest, ATemplateThatWasKilledIsReplaced) {
  ForkTemplate fork_template(TellPids);
  const auto first = fork_template.StartWorker("ask");
  ASSERT_TRUE(first.ok()) << first.status();
  const pid_t old = ReceivePids(*first).parent;
  const base::UniqueFd ended = OpenPid(old);
  ASSERT_EQ(kill(old, SIGKILL), 0);
  ASSERT_TRUE(WaitReadable(ended.get(), InAMinute()));
  const auto second = fork_template.StartWorker("ask");
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_NE(ReceivePids(*second).parent, old);
}

TEST(ForkTemplateTest, TheTemplateEndsWithItsObject) {
  base::UniqueFd ended;
  {
    ForkTemplate fork_template(TellPids);
    const auto worker = fork_template.StartWorker("ask");
    ASSERT_TRUE(worker.ok()) << worker.status();
    ended = OpenPid(ReceivePids(*worker).parent);
    ASSERT_TRUE(ended.valid());
  }
  EXPECT_TRUE(WaitReadable(ended.get(), InAMinute()));
}

TEST(ForkTemplateTest, WorkersHaveNoOtherDescriptorOfThisProcess) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const base::UniqueFd in(ends[0]);
  base::UniqueFd out(ends[1]);
  ForkTemplate fork_template(TellPids);
  const auto worker = fork_template.StartWorker("ask");
  ASSERT_TRUE(worker.ok()) << worker.status();
  ReceivePids(*worker);
  out.Reset();
  // The end of the pipe is reached although the template and the worker run.
  EXPECT_TRUE(WaitReadable(in.get(), InAMinute()));
}

TEST(ForkTemplateTest, ThreadsGetWorkersAtTheSameTime) {
  ForkTemplate fork_template(TellPids);
  std::vector<Pids> pids(8);
  {
    std::vector<std::jthread> threads;
    for (Pids& one : pids) {
      threads.emplace_back([&fork_template, &one] {
        const auto worker = fork_template.StartWorker("ask");
        if (worker.ok()) one = ReceivePids(*worker);
      });
    }
  }
  for (const Pids& one : pids) {
    EXPECT_GT(one.worker, 0);
    EXPECT_EQ(one.parent, pids.front().parent);
  }
}

}  // namespace
}  // namespace berth::platform
