// What reads the processes of others, beside one that keeps everybody from reading it.
#include <gtest/gtest.h>
#include <sched.h>
#include <spawn.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>

#include "base/ids.h"
#include "base/log.h"
#include "platform/mounts/fuse_server.h"
#include "platform/mounts/mount_holders.h"
#include "platform/processes/child.h"
#include "platform/processes/fake_hung_exec.h"
#include "platform/processes/marked_processes.h"
#include "platform/processes/process_end.h"
#include "platform/processes/process_info.h"
#include "platform/processes/process_walk.h"

namespace berth::platform {
namespace {

class BesideAHungProcess : public ::testing::Test {
 protected:
  BesideAHungProcess(void (*wait)(int file), const char* unreadable)
      : wait_(wait), unreadable_(unreadable) {}
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "skipped: mounting needs root";
    auto hung = HungExec::Start("", "", wait_);
    ASSERT_TRUE(hung.ok()) << hung.status();
    hung_ = *std::move(hung);
    // The fixture is what it says.
    reader_ = fork();
    if (reader_ == 0) {
      CloseAllBut({});  // with a copy of the server's descriptor it would keep the server alive
      char text[64];
      _exit(ReadProcessFile({"/proc", hung_->pid(), unreadable_}, text) > 0 ? 1 : 0);
    }
    const base::UniqueFd process = OpenPid(reader_);
    pollfd ended = {.fd = process.get(), .events = POLLIN, .revents = 0};
    EXPECT_EQ(poll(&ended, 1, 300), 0) << "this kernel shows such a process: nothing is tested";
  }
  void TearDown() override {
    if (hung_ == nullptr) return;
    EXPECT_FALSE(hung_->released()) << "something waited for the process";
    kill(reader_, SIGKILL);
    hung_.reset();
    waitpid(reader_, nullptr, 0);
  }
  // That this process is found as the server of a mount that it serves.
  static void ExpectServersAreFound() {
    const TempFolder folder;
    const auto mount = LostMount::Make(folder.path());
    ASSERT_TRUE(mount.ok()) << mount.status();
    ASSERT_TRUE((*mount)->Greet().ok());
    const auto table = ReadMountTable("/proc/self/mountinfo");
    ASSERT_TRUE(table.ok()) << table.status();
    const auto own = std::find_if(table->begin(), table->end(), [&](const MountEntry& entry) {
      return entry.mount_point == folder.path();
    });
    ASSERT_NE(own, table->end());
    const FuseServers servers = FindFuseServers();
    EXPECT_TRUE(servers.GetServers(ToFuseConnection(own->major, own->minor)).contains(getpid()));
  }

  std::unique_ptr<HungExec> hung_;

 private:
  pid_t reader_ = 0;
  void (*const wait_)(int file);
  const char* const unreadable_;
};

class BesideAHungExec : public BesideAHungProcess {
 protected:
  BesideAHungExec() : BesideAHungProcess(HungExec::CloseInExec, "stat") {}
};

class BesideAHungEpoll : public BesideAHungProcess {
 protected:
  BesideAHungEpoll() : BesideAHungProcess(HungExec::AddToEpoll, "fdinfo/200") {}
  static_assert(HungExec::kEpoll == 200);
};

TEST_F(BesideAHungExec, AWalkPassesItAndTellsSo) {
  struct Seen {
    size_t size;
  };
  const auto ask = [](pid_t pid, Seen& seen) {
    char text[64];
    seen.size = ReadProcessFile({"/proc", pid, "stat"}, text);
  };
  const std::vector<pid_t> pids = {1, hung_->pid(), getpid()};
  for (int i = 0; i < 2; ++i) {
    const auto asked = AskOfProcesses<Seen>("look", pids, std::chrono::seconds(30), ask);
    EXPECT_EQ(asked.stuck, std::vector<pid_t>{hung_->pid()});
    EXPECT_EQ(asked.answers.size(), 2u);
    EXPECT_GT(asked.answers.at(getpid()).size, 0u);
  }
  EXPECT_EQ(ReadForeignStat(hung_->pid()).status().code(), base::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(ReadForeignStartTicks(hung_->pid()), 0u);
  EXPECT_EQ(ReadForeignStartTicks(getpid()), base::ReadStartTicks(getpid()));
}

TEST_F(BesideAHungExec, WhatHasNotRunSinceIsNotAskedAgain) {
  struct Seen {
    bool asked;
  };
  const auto walk = [&] {
    const auto asked = AskOfProcesses<Seen>("look", {hung_->pid(), getpid()},
                                            std::chrono::seconds(30), [](pid_t pid, Seen& seen) {
                                              seen.asked = true;
                                              char text[64];
                                              ReadProcessFile({"/proc", pid, "stat"}, text);
                                            });
    EXPECT_EQ(asked.stuck, std::vector<pid_t>{hung_->pid()});
    return asked.parts.at(hung_->pid()).asked;
  };
  EXPECT_TRUE(walk());
  for (int minute = 0; minute < 9; ++minute) {
    internal::AgeStuckProcesses(std::chrono::minutes(1));
    EXPECT_FALSE(walk()) << "after minute " << minute;
  }
  internal::AgeStuckProcesses(std::chrono::minutes(2));
  EXPECT_TRUE(walk());
}

TEST_F(BesideAHungExec, AnEndedProcessIsStillKnownByItsStatus) {
  const pid_t child = fork();
  if (child == 0) _exit(7);
  const base::UniqueFd process = OpenPid(child);
  pollfd ended = {.fd = process.get(), .events = POLLIN, .revents = 0};
  ASSERT_EQ(poll(&ended, 1, 60'000), 1);
  EXPECT_EQ(DescribeEnd(ReadWaitStatus(child, process.get())), "exited with status 7");
  waitpid(child, nullptr, 0);
  EXPECT_EQ(ReadWaitStatus(hung_->pid(), OpenPid(hung_->pid()).get()), std::nullopt);
}

TEST_F(BesideAHungExec, ItIsDescribedByWhatTheKernelShows) {
  const auto info = ReadProcess(hung_->pid());
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_TRUE(info->unreadable);
  EXPECT_TRUE(info->in_kernel());
  EXPECT_EQ(info->parent, getpid());
  EXPECT_EQ(info->name, "hung-exec");
  const std::vector<ProcessInfo> tree = ReadProcessTree(getpid());
  ASSERT_FALSE(tree.empty());
  EXPECT_FALSE(tree.front().unreadable);
  EXPECT_FALSE(tree.front().program.empty());
  EXPECT_TRUE(std::any_of(tree.begin(), tree.end(), [&](const ProcessInfo& each) {
    return each.pid == hung_->pid() && each.unreadable;
  }));
}

TEST_F(BesideAHungExec, FuseServersAreFound) { ExpectServersAreFound(); }
TEST_F(BesideAHungEpoll, FuseServersAreFound) { ExpectServersAreFound(); }

TEST_F(BesideAHungExec, MountsInOtherNamespacesAreFound) {
  const TempFolder folder;
  int ready[2];
  ASSERT_EQ(pipe2(ready, O_CLOEXEC), 0);
  const pid_t other = fork();
  if (other == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const bool mounted = unshare(CLONE_NEWNS) == 0 &&
                         mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                         mount("held", folder.path().c_str(), "tmpfs", 0, nullptr) == 0;
    struct stat st = {};
    if (mounted) stat(folder.path().c_str(), &st);
    if (write(ready[1], &st.st_dev, sizeof(st.st_dev)) < 0) _exit(1);
    pause();
    _exit(0);
  }
  dev_t device = 0;
  ASSERT_EQ(read(ready[0], &device, sizeof(device)), static_cast<ssize_t>(sizeof(device)));
  const std::vector<MountHolder> holders = FindMountHolders(device);
  kill(other, SIGKILL);
  waitpid(other, nullptr, 0);
  close(ready[0]);
  close(ready[1]);
  ASSERT_EQ(holders.size(), 1u);
  EXPECT_EQ(holders[0].pids, std::vector<pid_t>{other});
  EXPECT_EQ(holders[0].where, folder.path());
  EXPECT_FALSE(holders[0].here);
}

pid_t SpawnMarked(std::string variable) {
  std::string program = "sleep", seconds = "600";
  char* const arguments[] = {program.data(), seconds.data(), nullptr};
  char* const environment[] = {variable.data(), nullptr};
  pid_t pid = 0;
  EXPECT_EQ(posix_spawn(&pid, "/bin/sleep", nullptr, nullptr, arguments, environment), 0);
  return pid;
}

bool WasKilled(pid_t pid) {
  int status = 0;
  return waitpid(pid, &status, WNOHANG) == pid && WIFSIGNALED(status);
}

TEST_F(BesideAHungExec, TheProcessesOfARunAreKilled) {
  const std::string variable = "BERTH_RUN=" + base::NewUuid();
  const pid_t pid = SpawnMarked(variable);
  EXPECT_EQ(ListMarkedProcesses(variable), std::vector<pid_t>{pid});
  EXPECT_EQ(KillMarkedProcesses(variable, std::chrono::seconds(30)), 0u);
  EXPECT_TRUE(WasKilled(pid));
}

TEST_F(BesideAHungExec, ADescendantThatNobodyCanReadIsNotTakenForEndedWhenItsParentHas) {
  const std::string variable = "BERTH_RUN=" + base::NewUuid();
  const auto orphan = HungExec::Start("", variable);
  ASSERT_TRUE(orphan.ok()) << orphan.status();
  EXPECT_EQ(KillMarkedProcesses(variable, std::chrono::seconds(3)), 1u);
  int status = 0;
  EXPECT_EQ(waitpid((*orphan)->parent(), &status, WNOHANG), (*orphan)->parent());
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(kill((*orphan)->pid(), 0), 0);
}

// A cgroup with the name that a runtime would give to a container's.
class Container {
 public:
  Container() {
    const std::string unified = "/sys/fs/cgroup/unified";
    struct stat st;
    folder_ = (stat(unified.c_str(), &st) == 0 ? unified : "/sys/fs/cgroup") + "/" + id_;
    made_ = mkdir(folder_.c_str(), 0755) == 0;
  }
  ~Container() {
    if (made_) rmdir(folder_.c_str());
  }
  bool made() const { return made_; }
  const std::string& id() const { return id_; }
  const std::string& folder() const { return folder_; }
  void Add(pid_t pid) const {
    const base::UniqueFd members(open((folder_ + "/cgroup.procs").c_str(), O_WRONLY | O_CLOEXEC));
    const std::string text = std::to_string(pid);
    EXPECT_EQ(write(members.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }

 private:
  static std::string MakeId() {
    std::string id = base::NewUuid() + base::NewUuid();
    std::erase(id, '-');
    return id;
  }
  const std::string id_ = MakeId();
  std::string folder_;
  bool made_ = false;
};

TEST_F(BesideAHungExec, ARunIsSearchedInItsContainerAlone) {
  const Container container;
  if (!container.made()) GTEST_SKIP() << "skipped: no cgroup can be made here";
  const std::string variable = "BERTH_RUN=" + base::NewUuid();
  const pid_t inside = SpawnMarked(variable), outside = SpawnMarked(variable);
  container.Add(inside);
  // The process that cannot be read is of another container, and does not count.
  EXPECT_EQ(KillMarkedProcesses(variable, std::chrono::seconds(30), container.id()), 0u);
  EXPECT_TRUE(WasKilled(inside));
  EXPECT_FALSE(WasKilled(outside));
  kill(outside, SIGKILL);
  waitpid(outside, nullptr, 0);
}

TEST_F(BesideAHungExec, AProcessOfTheContainerThatNobodyCanReadIsNotTakenForEnded) {
  const Container container;
  if (!container.made()) GTEST_SKIP() << "skipped: no cgroup can be made here";
  const auto hung = HungExec::Start(container.folder());
  ASSERT_TRUE(hung.ok()) << hung.status();
  const std::string variable = "BERTH_RUN=" + base::NewUuid();
  const pid_t inside = SpawnMarked(variable);
  container.Add(inside);
  EXPECT_EQ(KillMarkedProcesses(variable, std::chrono::seconds(30), container.id()), 1u);
  EXPECT_TRUE(WasKilled(inside));
}

}  // namespace
}  // namespace berth::platform
