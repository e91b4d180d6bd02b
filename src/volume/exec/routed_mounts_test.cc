#include "volume/exec/routed_mounts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/fake_faults.h"
#include "platform/files/durable_file.h"
#include "volume/exec/fake_mount_pod.h"
#include "volume/exec/router.h"

namespace berth::volume {
namespace {

using base::StatusCode;
using testing::HasSubstr;

class RoutedMountsTest : public testing::TestWithParam<rpc::FakeRuntime> {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "registrations are root's";
    std::filesystem::create_directories(bin_);
    // In containers, `mount` and `umount` are these: the fake table is changed after them.
    Program("mount", "exit 0");
    Program("umount", "exit 0");
    pods_.runtime().state().SetExecSync(
        [this](const rpc::cri::ExecSyncRequest& request) { return Run(request); });
    Restart();
  }
  void Restart() {
    router_.reset();
    auto router = NewUtilityRouter(pods_.Surroundings());
    ASSERT_TRUE(router.ok()) << router.status();
    router_ = *std::move(router);
  }
  void Program(const std::string& name, const std::string& script) {
    std::ofstream(bin_ + "/" + name, std::ios::trunc) << "#!/bin/sh\n" << script << "\n";
    std::filesystem::permissions(bin_ + "/" + name, std::filesystem::perms::owner_all);
  }

  // What a container does: the programs above, whose mounts reach the host's table.
  rpc::cri::ExecSyncResponse Run(const rpc::cri::ExecSyncRequest& request) {
    platform::Command command{.argv = {"env", "PATH=" + bin_ + ":/usr/bin:/bin"}};
    command.argv.insert(command.argv.end(), request.cmd().begin(), request.cmd().end());
    const auto result = platform::NewHostExec()->Run(command);
    rpc::cri::ExecSyncResponse answer;
    answer.set_exit_code(result.ok() ? result->exit_code : 255);
    if (result.ok()) answer.set_stderr(result->err);
    const auto ran = [&](const char* name) {
      for (const std::string& argument : request.cmd()) {
        if (argument == name) return true;
      }
      return false;
    };
    if (answer.exit_code() == 0 && propagates_) {
      if (ran("mount")) pods_.mounter().Add(mount_.target, "fuse.glusterfs");
      if (ran("umount")) EXPECT_TRUE(pods_.mounter().Unmount(mount_.target).ok());
    }
    ran_in_.push_back(request.container_id() + (ran("umount") ? " umount" : " mount"));
    return answer;
  }
  size_t Records() const {
    const std::string folder = pods_.folder() / "node/helper-mounts";
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder),
                                             std::filesystem::directory_iterator()));
  }
  base::Status Mount() { return router_->helper_mounts().Mount(mount_); }
  base::Status Unmount() {
    return router_->helper_mounts().Unmount(kPlugin, platform::MountPoint(mount_.target));
  }

  FakeMountPods pods_{GetParam()};
  const std::string bin_ = pods_.folder() / "bin";
  const HelperMount mount_{.plugin = kPlugin,
                           .fs_type = "glusterfs",
                           .source = "10.0.0.7:/scratch",
                           .target = pods_.paths().root() + "/pods/1",
                           .timeout = std::chrono::minutes(1)};
  std::atomic<bool> propagates_ = true;
  std::vector<std::string> ran_in_;
  std::unique_ptr<Utilities> router_;
};

INSTANTIATE_TEST_SUITE_P(Runtime, RoutedMountsTest,
                         testing::Values(rpc::FakeRuntime::kContainerd, rpc::FakeRuntime::kCrio),
                         [](const auto& info) { return NameOf(info.param); });

TEST_P(RoutedMountsTest, WhatAPodMountedItUnmounts) {
  const std::string id = pods_.Register("uid-1");
  ASSERT_TRUE(Mount().ok()) << Mount();
  EXPECT_EQ(Records(), 1u);
  EXPECT_TRUE(Unmount().ok());
  EXPECT_THAT(ran_in_, testing::ElementsAre(id + " mount", id + " umount"));
  EXPECT_FALSE(pods_.mounter().IsMounted(mount_.target));
  EXPECT_EQ(Records(), 0u);
  EXPECT_TRUE(Unmount().ok());  // again
}

TEST_P(RoutedMountsTest, AnotherGenerationMountsAndTheOldOneUnmountsWhatItMounted) {
  const std::string old = pods_.Register("uid-1");
  ASSERT_TRUE(Mount().ok());
  pods_.Register("uid-2");
  Restart();  // the record outlives the process
  EXPECT_TRUE(Unmount().ok());
  EXPECT_THAT(ran_in_, testing::ElementsAre(old + " mount", old + " umount"));
}

TEST_P(RoutedMountsTest, OfAContainerThatIsGoneTheMountIsDetachedWithAnEvent) {
  const std::string id = pods_.Register("uid-1");
  ASSERT_TRUE(Mount().ok());
  pods_.Exit(id);
  EXPECT_TRUE(Unmount().ok());
  EXPECT_FALSE(pods_.mounter().IsMounted(mount_.target));
  EXPECT_EQ(Records(), 0u);
  ASSERT_EQ(pods_.events().events().size(), 1u);
  EXPECT_EQ(pods_.events().events()[0].reason, "PluginContainerGone");
  EXPECT_THAT(pods_.events().events()[0].message, HasSubstr(mount_.target));
}

TEST_P(RoutedMountsTest, AMountThatTheHostDoesNotSeeIsTakenBackAndNamesPropagation) {
  const std::string id = pods_.Register("uid-1");
  propagates_ = false;
  const base::Status status = Mount();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(base::Message(status), HasSubstr("mountPropagation Bidirectional"));
  EXPECT_THAT(ran_in_, testing::ElementsAre(id + " mount", id + " umount"));
  EXPECT_EQ(Records(), 0u);
}

TEST_P(RoutedMountsTest, AFailureSaysWhereAndWhyAndLeavesNoRecord) {
  pods_.Register("uid-1");
  Program("mount", "echo 'no such volume' >&2; exit 32");
  const base::Status status = Mount();
  EXPECT_EQ(
      base::Message(status),
      "container 'gluster' of pod kube-system/gluster-x7: mount exited with 32: no such volume");
  EXPECT_EQ(Records(), 0u);
}

TEST_P(RoutedMountsTest, AnUnknownOutcomeKeepsItsRecord) {
  const std::string id = pods_.Register("uid-1");
  pods_.runtime().script().LoseAnswer("ExecSync");
  EXPECT_EQ(Mount().code(), StatusCode::kUnavailable);
  EXPECT_EQ(Records(), 1u);
  Restart();
  EXPECT_TRUE(Unmount().ok());
  EXPECT_EQ(ran_in_.back(), id + " umount");
  EXPECT_EQ(Records(), 0u);
}

// An agent that died left its utility running, which would mount some time.
TEST_P(RoutedMountsTest, WhatAnEarlierAgentBeganIsEndedFirst) {
  const std::string id = pods_.Register("uid-1");
  MountRecords records(pods_.folder() / "node/helper-mounts");
  ASSERT_TRUE(records.LoadRecords().ok());
  for (const bool mounts : {true, false}) {
    ASSERT_TRUE(records
                    .Write({.target = mount_.target,
                            .plugin = kPlugin,
                            .container = PodContainer{FakeMountPods::PodOf("uid-1"), id},
                            .run_id = "earlier"})
                    .ok());
    std::string program = "sleep", seconds = "60", run = "BERTH_RUN=earlier";
    char* const arguments[] = {program.data(), seconds.data(), nullptr};
    char* const environment[] = {run.data(), nullptr};
    pid_t pid = 0;
    ASSERT_EQ(posix_spawn(&pid, "/bin/sleep", nullptr, nullptr, arguments, environment), 0);
    // Whose it is, is seen a little after it runs.
    while (!platform::ReadFile(fmt::format("/proc/{}/environ", pid))->starts_with(run)) {
      std::this_thread::yield();
    }
    EXPECT_TRUE((mounts ? Mount() : Unmount()).ok());
    int status = 0;
    ASSERT_EQ(waitpid(pid, &status, 0), pid);
    EXPECT_TRUE(WIFSIGNALED(status));
    if (mounts) EXPECT_EQ((*records.Read(mount_.target))->run_id, "");
    EXPECT_TRUE(Unmount().ok());
    EXPECT_EQ(Records(), 0u);
  }
}

TEST_P(RoutedMountsTest, WhatIsUsedIsNotKilledWithItsRecord) {
  pods_.Register("uid-1");
  Program("mount", "sleep 60 >/dev/null 2>&1 & echo $! > " + bin_ + "/daemon");
  ASSERT_TRUE(Mount().ok());
  pid_t daemon = 0;
  std::ifstream(bin_ + "/daemon") >> daemon;
  ASSERT_GT(daemon, 0);
  // The mount is detached and made once more. The daemon of the first mount goes on.
  ASSERT_TRUE(pods_.mounter().Unmount(mount_.target).ok());
  ASSERT_TRUE(Mount().ok());
  EXPECT_EQ(kill(daemon, 0), 0);
  EXPECT_TRUE(Unmount().ok());
  kill(daemon, SIGKILL);
}

TEST_P(RoutedMountsTest, APodWithoutUmountLeavesItToTheHost) {
  pods_.Register("uid-1");
  ASSERT_TRUE(Mount().ok());
  Program("umount", "exit 1");
  EXPECT_TRUE(Unmount().ok());
  EXPECT_FALSE(pods_.mounter().IsMounted(mount_.target));
  EXPECT_EQ(Records(), 0u);
}

TEST_P(RoutedMountsTest, ABusyMountStaysWithItsRecord) {
  pods_.Register("uid-1");
  ASSERT_TRUE(Mount().ok());
  Program("umount", "echo 'target is busy' >&2; exit 32");
  pods_.mounter().Fail(mount_.target, base::Error(StatusCode::kFailedPrecondition, "busy"));
  EXPECT_EQ(Unmount().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(Records(), 1u);
}

TEST_P(RoutedMountsTest, APodThatIsKilledBetweenLookUpAndExecIsReplacedByTheNext) {
  const std::string id = pods_.Register("uid-1");
  std::atomic<bool> replaced = false;
  std::string successor;
  pods_.runtime().script().AfterEffect("ListContainers", [&](const google::protobuf::Message&) {
    if (!replaced.exchange(true)) {
      pods_.Exit(id);
      successor = pods_.Register("uid-2");
    }
    return base::OkStatus();
  });
  ASSERT_TRUE(Mount().ok());
  EXPECT_TRUE(Unmount().ok());
  EXPECT_THAT(ran_in_, testing::ElementsAre(successor + " mount", successor + " umount"));
}

// As a crash there: what was begun is done again by another process.
TEST_P(RoutedMountsTest, CutOffAtAnyPointOfItsRecordBothCanBeRepeated) {
  pods_.Register("uid-1");
  for (const char* point : {"exec.mount_record.write.before", "exec.mount_record.write.temp",
                            "exec.mount_record.write.after", "exec.mount_record.remove.before",
                            "exec.mount_record.remove.after"}) {
    {
      const base::FakeFaults fault(fmt::format("{}=error", point).c_str());
      const bool mounted = Mount().ok();
      const bool unmounted = Unmount().ok();
      EXPECT_FALSE(mounted && unmounted) << point;
    }
    Restart();
    const base::Status again = Mount();
    EXPECT_TRUE(again.ok() || again.code() == StatusCode::kAlreadyExists) << point << again;
    EXPECT_TRUE(Unmount().ok()) << point;
    EXPECT_FALSE(pods_.mounter().IsMounted(mount_.target)) << point;
    EXPECT_EQ(Records(), 0u) << point;
  }
}

TEST_P(RoutedMountsTest, WhatIsMountedThereIsLeftAlone) {
  pods_.Register("uid-1");
  pods_.mounter().Add(mount_.target);
  EXPECT_EQ(Mount().code(), StatusCode::kAlreadyExists);
  EXPECT_TRUE(ran_in_.empty());
  EXPECT_EQ(Records(), 0u);
}

TEST_P(RoutedMountsTest, WithoutARecordTheHostUnmounts) {
  pods_.Register("uid-1");
  pods_.mounter().Add(mount_.target);
  EXPECT_TRUE(Unmount().ok());
  EXPECT_FALSE(pods_.mounter().IsMounted(mount_.target));
  EXPECT_TRUE(ran_in_.empty());
}

}  // namespace
}  // namespace berth::volume
