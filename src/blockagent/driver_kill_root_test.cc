// The driver's process is killed after each system call that it makes, in each of its calls. It
// keeps nothing, so that what matters is how far its agent was told: the agent goes on to the end,
// or was never asked. Repeated, each call succeeds; and what nobody comes back for is taken off
// with its pod.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "blockagent/agent.h"
#include "blockagent/fake_site.h"

namespace berth::blockagent {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr char kNode[] = "n1";
constexpr int kNever = -1;
constexpr int kNotTraced = 125;
// More than any call of the driver makes.
constexpr int kMostCalls = 1000;

struct Ran {
  bool killed = false;
  int exit_code = -1;
  std::string said;
};

// Kills the process, which waits to be traced, when its `kill_at`th system call returns. Gives its
// status as of waitpid.
int Trace(pid_t process, int kill_at) {
  int status = 0;
  if (waitpid(process, &status, 0) != process || !WIFSTOPPED(status)) return status;
  ptrace(PTRACE_SETOPTIONS, process, nullptr, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
  int signal = 0;
  bool in_call = false;
  for (int returned = 0;;) {
    ptrace(PTRACE_SYSCALL, process, nullptr, signal);
    if (waitpid(process, &status, 0) != process || !WIFSTOPPED(status)) return status;
    const bool at_call = WSTOPSIG(status) == (SIGTRAP | 0x80);
    signal = at_call ? 0 : WSTOPSIG(status);
    if (!at_call) continue;
    in_call = !in_call;
    if (!in_call && ++returned == kill_at) kill(process, SIGKILL);
  }
}

class DriverKillTest : public testing::Test {
 protected:
  void SetUp() override {
    const std::string program = fs::canonical("/proc/self/exe").parent_path() / "berth-flex";
    ASSERT_TRUE(fs::exists(program)) << program;
    auto agent =
        Agent::Start({.node = kNode,
                      .data_folder = site_.folder / "data",
                      .kubelet_folder = site_.folder / ("kubelet-" + std::string(kNode)),
                      .socket = site_.folder / "sock",
                      .drivers = {"berth.dev/block"},
                      .plugin_folder = site_.folder / "plugins",
                      .driver_executable = program,
                      .resync = milliseconds(100)},
                     site_.ClientOf(std::string(kNode)), site_.events, site_.clock, nullptr);
    ASSERT_TRUE(agent.ok()) << agent.status();
    agent_ = *std::move(agent);
    driver_ = site_.folder / "plugins/berth.dev~block/block";
    if (Run({"init"}, 1).exit_code == kNotTraced) {
      GTEST_SKIP() << "no process may be traced here";
    }
  }
  void TearDown() override {
    if (agent_ == nullptr) return;
    for (const std::string& volume : agent_->attachments().ListVolumes()) {
      EXPECT_TRUE(agent_->attachments().TakeAllOff(volume, {.on = true}, FakeSite::Soon()).ok());
    }
  }

  Ran Run(const std::vector<std::string>& arguments, int kill_at = kNever) {
    int ends[2];
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    const base::UniqueFd from(ends[0]);
    base::UniqueFd to(ends[1]);
    std::vector<const char*> argv = {driver_.c_str()};
    for (const std::string& argument : arguments) argv.push_back(argument.c_str());
    argv.push_back(nullptr);
    const pid_t process = fork();
    if (process == 0) {
      dup2(to.get(), STDOUT_FILENO);
      if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(kNotTraced);
      execv(driver_.c_str(), const_cast<char* const*>(argv.data()));
      _exit(127);
    }
    EXPECT_GT(process, 0);
    to.Reset();
    const int status = Trace(process, kill_at);
    char text[4096];
    const ssize_t length = read(from.get(), text, sizeof text);
    return {.killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL,
            .exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1,
            .said = std::string(text, length > 0 ? static_cast<size_t>(length) : 0)};
  }
  static std::vector<std::string> MountOf(const MountCall& call) {
    return {"mount", call.mount_dir,
            base::json::Dump({{"kubernetes.io/pod.name", call.pod},
                              {"kubernetes.io/pod.namespace", call.pod_namespace},
                              {"kubernetes.io/pod.uid", call.pod_uid},
                              {"kubernetes.io/fsType", "ext4"},
                              {"kubernetes.io/readwrite", "rw"}})};
  }
  static std::vector<std::string> UnmountOf(const MountCall& call) {
    return {"unmount", call.mount_dir};
  }
  void ExpectSuccess(const std::vector<std::string>& arguments) {
    const Ran ran = Run(arguments);
    EXPECT_EQ(ran.exit_code, 0) << ran.said;
    EXPECT_THAT(ran.said, HasSubstr("\"Success\""));
  }
  bool NothingLeft(const std::string& volume) {
    return !agent_->attachments().Find(volume).has_value() && site_.Fence(volume).empty() &&
           site_.Devices(volume) == 0;
  }

  FakeSite site_;
  std::unique_ptr<Agent> agent_;
  std::string driver_;
};

TEST_F(DriverKillTest, ACallThatIsCutShortAnywhereSucceedsWhenItIsRepeated) {
  int count = 1;
  while (count < kMostCalls && Run({"init"}, count).killed) ++count;
  EXPECT_GT(count, 5);
  ExpectSuccess({"init"});
  EXPECT_TRUE(agent_->Health().ok());
  site_.AddVolume("pv-1", 32);
  bool at_mount = true, at_unmount = true;
  for (count = 1; count < kMostCalls && (at_mount || at_unmount); ++count) {
    SCOPED_TRACE(fmt::format("system call {}", count));
    const MountCall call = site_.AddPod(kNode, "web", "pv-1");
    at_mount = Run(MountOf(call), count).killed;
    ExpectSuccess(MountOf(call));
    ASSERT_TRUE(site_.MountAt(call.mount_dir).has_value());
    EXPECT_THAT(site_.Fence("pv-1"), SizeIs(1));
    EXPECT_EQ(site_.Devices("pv-1"), 1u);
    at_unmount = Run(UnmountOf(call), count).killed;
    ExpectSuccess(UnmountOf(call));
    ASSERT_FALSE(site_.MountAt(call.mount_dir).has_value());
    ASSERT_TRUE(NothingLeft("pv-1"));
    site_.RemovePod("web");
  }
  EXPECT_GT(count, 10);
  EXPECT_LT(count, kMostCalls);
}

TEST_F(DriverKillTest, WhatNobodyComesBackForIsTakenOffWithItsPod) {
  ExpectSuccess({"init"});
  int mounted = 0;
  std::vector<std::string> volumes;
  for (bool killed = true; killed && volumes.size() < kMostCalls;) {
    const std::string name = fmt::format("pv-{}", volumes.size() + 1);
    volumes.push_back(name);
    site_.AddVolume(name, 16);
    const MountCall call = site_.AddPod(kNode, name, name);
    killed = Run(MountOf(call), static_cast<int>(volumes.size())).killed;
    mounted += site_.MountAt(call.mount_dir).has_value() ? 1 : 0;
    site_.RemovePod(name);
  }
  EXPECT_GT(volumes.size(), 10u);
  EXPECT_GT(mounted, 1) << "those whose driver had its answer";
  const auto deadline = FakeSite::Soon();
  for (const std::string& name : volumes) {
    while (!NothingLeft(name) && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(milliseconds(5));
    }
    EXPECT_TRUE(NothingLeft(name)) << name;
  }
  // What was asked for last is done with, too.
  agent_.reset();
  for (const std::string& name : volumes) {
    EXPECT_THAT(site_.Fence(name), IsEmpty()) << name;
    EXPECT_EQ(site_.Devices(name), 0u) << name;
  }
}

}  // namespace
}  // namespace berth::blockagent
