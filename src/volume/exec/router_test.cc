#include "volume/exec/router.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "platform/processes/endable_exec.h"
#include "volume/exec/fake_mount_pod.h"

namespace berth::volume {
namespace {

using base::StatusCode;
using platform::Command;
using testing::HasSubstr;
using namespace std::chrono_literals;

// Says where it runs: in a container, or "host".
const Command kWhere{.argv = {"sh", "-c", "echo ${BERTH_FAKE_CONTAINER:-host}"}, .timeout = 1min};

class RouterTest : public testing::TestWithParam<rpc::FakeRuntime> {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "registrations are root's";
    auto router = NewUtilityRouter(pods_.Surroundings());
    ASSERT_TRUE(router.ok()) << router.status();
    router_ = *std::move(router);
  }
  std::string Where(const Command& command = kWhere) {
    const auto result = router_->GetExec(kPlugin).Run(command);
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() ? result->out : "";
  }

  FakeMountPods pods_{GetParam()};
  std::unique_ptr<Utilities> router_;
};

INSTANTIATE_TEST_SUITE_P(Runtime, RouterTest,
                         testing::Values(rpc::FakeRuntime::kContainerd, rpc::FakeRuntime::kCrio),
                         [](const auto& info) { return NameOf(info.param); });

TEST_P(RouterTest, WithoutARegistrationTheHostRunsIt) {
  EXPECT_EQ(Where(), "host\n");
  EXPECT_EQ(pods_.runtime().script().Count("ListContainers"), 0);
}

TEST_P(RouterTest, WhatRunsOnTheHostDoesNotEndWithThePods) {
  router_->CancelRuns();
  EXPECT_EQ(Where(), "host\n");
}

TEST_P(RouterTest, ARoleThatHasEndedRunsNothingAnywhere) {
  platform::EndableExec role([this]() -> platform::Exec& { return router_->GetExec(kPlugin); });
  role.EndRuns();
  EXPECT_EQ(role.Run(kWhere).status().code(), StatusCode::kCancelled);
  const std::string id = pods_.Register("uid-1");
  EXPECT_EQ(role.Run(kWhere).status().code(), StatusCode::kCancelled);
  EXPECT_EQ(Where(), id + "\n");
}

TEST_P(RouterTest, ARegisteredPodRunsItAndOnlyItsPluginsUtilities) {
  const std::string id = pods_.Register("uid-1");
  EXPECT_EQ(Where(), id + "\n");
  const auto other = router_->GetExec("kubernetes.io/nfs").Run(kWhere);
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_EQ(other->out, "host\n");
}

TEST_P(RouterTest, TheRegistrationIsReadAtEachRun) {
  EXPECT_EQ(Where(), "host\n");
  const std::string first = pods_.Register("uid-1");
  EXPECT_EQ(Where(), first + "\n");
  const std::string second = pods_.Register("uid-2");
  EXPECT_EQ(Where(), second + "\n");
  std::filesystem::remove(pods_.RegistrationPath());
  EXPECT_EQ(Where(), "host\n");
}

TEST_P(RouterTest, TheRuntimeIsAskedOnceForAPodThatStays) {
  const std::string id = pods_.Register("uid-1");
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Where(), id + "\n");
  EXPECT_EQ(pods_.runtime().script().Count("ListContainers"), 1);
}

TEST_P(RouterTest, AContainerThatWasRestartedSinceTheLastRunIsFound) {
  const std::string first = pods_.Register("uid-1");
  EXPECT_EQ(Where(), first + "\n");
  pods_.Exit(first);
  const std::string second = pods_.StartPod("uid-1");
  EXPECT_EQ(Where(), second + "\n");
  pods_.Exit(second);
  EXPECT_EQ(Where(), "host\n");
}

TEST_P(RouterTest, AFileThatAnOlderPodOfTheSameNameLeftIsNone) {
  pods_.StartPod("uid-2");
  pods_.WriteRegistration(FakeMountPods::TextOf(FakeMountPods::PodOf("uid-1")));
  EXPECT_EQ(Where(), "host\n");
}

TEST_P(RouterTest, AContainerThatDoesNotRunIsNone) {
  pods_.Exit(pods_.Register("uid-1"));
  EXPECT_EQ(Where(), "host\n");
}

TEST_P(RouterTest, APodThatIsNotWhatTheFileNamesIsNone) {
  pods_.StartPod("uid-1");
  Registration other = FakeMountPods::PodOf("uid-1");
  other.pod_name = "another";
  pods_.WriteRegistration(FakeMountPods::TextOf(other));
  EXPECT_EQ(Where(), "host\n");
}

TEST_P(RouterTest, APodThatIsKilledBetweenLookUpAndExecLeavesItToTheHost) {
  const std::string id = pods_.Register("uid-1");
  std::atomic<bool> killed = false;
  pods_.runtime().script().AfterEffect("ListContainers", [&](const google::protobuf::Message&) {
    if (!killed.exchange(true)) pods_.Exit(id);
    return base::OkStatus();
  });
  EXPECT_EQ(Where(), "host\n");
  EXPECT_TRUE(killed);
  EXPECT_EQ(pods_.runtime().script().Count("ExecSync"), 1);
}

TEST_P(RouterTest, APodThatIsReplacedBetweenLookUpAndExecLeavesItToTheNewOne) {
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
  EXPECT_EQ(Where(), successor + "\n");
}

TEST_P(RouterTest, AnUnknownOutcomeIsNotRunAgainElsewhere) {
  pods_.Register("uid-1");
  const std::string runs = pods_.folder() / "runs";
  pods_.runtime().script().LoseAnswer("ExecSync");
  const auto result =
      router_->GetExec(kPlugin).Run({.argv = {"sh", "-c", "echo x >>" + runs}, .timeout = 1min});
  EXPECT_EQ(result.status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(std::filesystem::file_size(runs), 2u);
}

TEST_P(RouterTest, WhileTheRuntimeIsAwayNothingRunsAnywhere) {
  pods_.Register("uid-1");
  pods_.runtime().GoAway();
  const auto result = router_->GetExec(kPlugin).Run(kWhere);
  EXPECT_EQ(result.status().code(), StatusCode::kUnavailable);
  EXPECT_TRUE(rpc::WasNotSent(result.status()));
}

TEST_P(RouterTest, ARefusedRegistrationRunsNothingAndIsToldOnce) {
  pods_.WriteRegistration("{\"podName\":");
  for (int i = 0; i < 3; ++i) {
    const auto result = router_->GetExec(kPlugin).Run(kWhere);
    EXPECT_EQ(result.status().code(), StatusCode::kFailedPrecondition);
    EXPECT_THAT(base::Message(result.status()), HasSubstr(pods_.RegistrationPath()));
  }
  ASSERT_EQ(pods_.events().events().size(), 1u);
  const auto event = pods_.events().events()[0];
  EXPECT_EQ(event.object.kind, "Node");
  EXPECT_EQ(event.reason, "PluginContainerRefused");
  EXPECT_THAT(event.message, HasSubstr(pods_.RegistrationPath()));
  // Another fault is news, and so is the same one after it was mended.
  pods_.WriteRegistration("[]");
  EXPECT_FALSE(router_->GetExec(kPlugin).Run(kWhere).ok());
  EXPECT_EQ(pods_.events().events().size(), 2u);
  pods_.Register("uid-1");
  Where();
  pods_.WriteRegistration("[]");
  EXPECT_FALSE(router_->GetExec(kPlugin).Run(kWhere).ok());
  EXPECT_EQ(pods_.events().events().size(), 3u);
}

TEST_P(RouterTest, UdevIsTheHosts) {
  pods_.Register("uid-1");
  // Its own program, so that the machine needs none.
  const std::string udevadm = pods_.folder() / "udevadm";
  std::ofstream(udevadm) << "#!/bin/sh\necho ${BERTH_FAKE_CONTAINER:-host} $1\n";
  std::filesystem::permissions(udevadm, std::filesystem::perms::owner_all);
  EXPECT_EQ(Where({.argv = {udevadm, "trigger"}}), "host trigger\n");
}

TEST_P(RouterTest, InPodNeverRunsOnTheHost) {
  const auto none = router_->GetPodExec(kPlugin).Run(kWhere);
  EXPECT_EQ(none.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(base::Message(none.status()), HasSubstr("no pod that runs on this node"));
  const std::string id = pods_.Register("uid-1");
  const auto there = router_->GetPodExec(kPlugin).Run(kWhere);
  ASSERT_TRUE(there.ok()) << there.status();
  EXPECT_EQ(there->out, id + "\n");
}

TEST_P(RouterTest, OneRunThatHangsHoldsUpNoOther) {
  pods_.Register("uid-1");
  platform::Exec& exec = router_->GetExec(kPlugin);
  std::atomic<int> well = 0;
  std::vector<std::thread> others;
  base::Status late;
  std::thread hung([&] {
    late =
        exec.Run({.argv = {"sh", "-c", "trap '' TERM; while :; do sleep 600; done"}, .timeout = 5s})
            .status();
  });
  for (int i = 0; i < 20; ++i) {
    others.emplace_back([&] {
      const auto result = exec.Run(kWhere);
      if (result.ok() && result->exit_code == 0) ++well;
    });
  }
  for (std::thread& thread : others) thread.join();
  EXPECT_EQ(well, 20);
  hung.join();
  EXPECT_EQ(late.code(), StatusCode::kDeadlineExceeded);
}

TEST(HostWayTest, AnAgentInAContainerMountsInTheHostsNamespace) {
  using testing::ElementsAre;
  EXPECT_THAT(
      MakeHostCommand({.argv = {"mount", "-t", "nfs", "a:/b", "/c"}}).argv,
      ElementsAre("nsenter", "--mount=/proc/1/ns/mnt", "--", "mount", "-t", "nfs", "a:/b", "/c"));
  EXPECT_EQ(MakeHostCommand({.argv = {"/sbin/umount.nfs", "/c"}}).argv[0], "nsenter");
  EXPECT_THAT(MakeHostCommand({.argv = {"mkfs.ext4", "/dev/x"}}).argv,
              ElementsAre("mkfs.ext4", "/dev/x"));
  EXPECT_EQ(MakeHostCommand({.argv = {"mountpoint", "/c"}}).argv[0], "mountpoint");
}

}  // namespace
}  // namespace berth::volume
