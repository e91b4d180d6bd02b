// Calls that fail, are cut short or are repeated: what the kubelet hears, and what is left.
#include <functional>
#include <set>
#include <thread>

#include "base/fake_faults.h"
#include "crustproxy/volumes_fixture.h"
#include "rpc/outcome.h"

namespace berth::crustproxy {
namespace {

using VolumeFaultsTest = VolumesFixture;

TEST_F(VolumeFaultsTest, ARepeatedOrInterruptedCallGoesOnWhereItStopped) {
  ASSERT_OK(Stage());
  handler_->script().LoseAnswer("RuntimePublishVolume");
  EXPECT_EQ(Publish().code(), StatusCode::kUnavailable);
  Restart();
  ASSERT_OK(Stage());
  ASSERT_OK(Publish());
  const int calls = driver_->script().Count("NodePublishVolume");
  Restart();
  ASSERT_OK(Publish());  // as after a restart of the kubelet
  EXPECT_EQ(driver_->script().Count("NodePublishVolume"), calls);
  handler_->script().LoseAnswer("RuntimeUnpublishVolume");
  EXPECT_EQ(Unpublish().code(), StatusCode::kUnavailable);
  Restart();
  ASSERT_OK(Unpublish());
  ASSERT_OK(Unpublish());
  ASSERT_OK(Unstage());
  ASSERT_OK(Unstage());
  ExpectNothingIsLeft();
}

TEST_F(VolumeFaultsTest, AnErrorAfterAStepIsNeverFinalForTheKubelet) {
  ASSERT_OK(Stage());
  handler_->script().Fail("RuntimePublishVolume",
                          base::Error(StatusCode::kFailedPrecondition, "no"));
  const Status failed = Publish();
  EXPECT_EQ(failed.code(), StatusCode::kUnavailable);
  EXPECT_THAT(base::Message(failed), HasSubstr("no"));
  ASSERT_OK(Unpublish());
  ASSERT_OK(Unstage());
  ExpectNothingIsLeft();
}

// The points that the life of a volume passes in the proxy.
constexpr const char* kPoints[] = {
    "crustproxy.volume.write.before",         "crustproxy.volume.write.temp",
    "crustproxy.volume.write.after",          "crustproxy.volume.remove.before",
    "crustproxy.volume.remove.after",         "rpc.csi.NodeStageVolume.before",
    "rpc.csi.NodeStageVolume.after",          "rpc.csi.NodePublishVolume.before",
    "rpc.csi.NodePublishVolume.after",        "rpc.crust.RuntimePublishVolume.before",
    "rpc.crust.RuntimePublishVolume.after",   "rpc.crust.RuntimeUnpublishVolume.before",
    "rpc.crust.RuntimeUnpublishVolume.after", "rpc.csi.NodeUnpublishVolume.before",
    "rpc.csi.NodeUnpublishVolume.after",      "rpc.csi.NodeUnstageVolume.before",
    "rpc.csi.NodeUnstageVolume.after"};

// A call that is cut short and a process that begins anew are what is left of a crash. The kubelet
// repeats the call that got no answer.
TEST_F(VolumeFaultsTest, AProxyThatEndsAtAnyPointGoesOnAfterItsRestart) {
  const std::vector<std::function<Status()>> life = {
      [this] { return Stage(); }, [this] { return Publish(); }, [this] { return Unpublish(); },
      [this] { return Unstage(); }};
  for (const bool left_by_driver : {false, true}) {
    if (left_by_driver) {
      rpc::FakeCsiDriver::Options& driver = driver_->state().options();
      driver.node_capabilities.insert(NodeRpc::RUNTIME_ASSISTED_MOUNT);
      driver.deferred.emplace();
      driver.deferred->set_source(disk_->device());
      driver.deferred->set_type("ext4");
    }
    std::set<std::string> passed;
    for (const std::string point : kPoints) {
      for (int passage = 1; passage < 20; ++passage) {
        SCOPED_TRACE(
            fmt::format("{}, passage {}, left by the driver: {}", point, passage, left_by_driver));
        size_t step = 0;
        {
          const std::string fault = fmt::format("{}=error:ABORTED@{}", point, passage);
          const base::FakeFaults faults(fault.c_str());
          while (step < life.size() && life[step]().ok()) ++step;
        }
        if (step == life.size()) break;
        passed.insert(point);
        Restart();
        for (; step < life.size(); ++step) ASSERT_OK(life[step]());
        ExpectNothingIsLeft();
      }
    }
    EXPECT_EQ(passed.size(), std::size(kPoints));
  }
}

TEST_F(VolumeFaultsTest, WithoutTheApiNothingIsDecided) {
  client_.SetOutage(base::Error(StatusCode::kUnavailable, "away"));
  EXPECT_EQ(Stage().code(), StatusCode::kUnavailable);
  client_.SetOutage(base::OkStatus());
  ASSERT_OK(Stage());
  client_.SetOutage(base::Error(StatusCode::kUnavailable, "away"));
  EXPECT_EQ(Publish().code(), StatusCode::kUnavailable);
  client_.SetOutage(base::OkStatus());
  ASSERT_OK(Publish());
  client_.SetOutage(base::Error(StatusCode::kUnavailable, "away"));
  ASSERT_OK(Unpublish());
  ASSERT_OK(Unstage());
  ExpectNothingIsLeft();
}

TEST_F(VolumeFaultsTest, AStagingForTheHostThatTimedOutIsRepeated) {
  handler_->Lose(Capability::FS_GROUP_CHANGE_POLICY_ALWAYS);  // so the host mounts
  ASSERT_OK(Stage());
  driver_->script().Fail("NodeStageVolume", base::Error(StatusCode::kDeadlineExceeded, "slow"));
  EXPECT_EQ(Publish().code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(driver_->script().Count("NodePublishVolume"), 0);
  Restart();
  ASSERT_OK(Publish());
  EXPECT_EQ(driver_->script().Count("NodeStageVolume"), 2);
  EXPECT_THAT(driver_->state().StagingPaths(), ElementsAre(Staging()));
  ASSERT_OK(Publish());
  EXPECT_EQ(driver_->script().Count("NodeStageVolume"), 2) << "it is staged";
  ASSERT_OK(Unpublish());
  ASSERT_OK(Unstage());
  ExpectNothingIsLeft();
}

TEST_F(VolumeFaultsTest, AStagingForTheHostThatTimedOutIsUndone) {
  handler_->Lose(Capability::FS_GROUP_CHANGE_POLICY_ALWAYS);
  ASSERT_OK(Stage());
  driver_->script().LoseAnswer("NodeStageVolume");
  EXPECT_EQ(Publish().code(), StatusCode::kUnavailable);
  EXPECT_THAT(driver_->state().StagingPaths(), ElementsAre(Staging()));
  // A refusal of the repeated request does not say what the first one did.
  driver_->script().Fail("NodeStageVolume", base::Error(StatusCode::kInternal, "no"));
  EXPECT_EQ(Publish().code(), StatusCode::kUnavailable);
  ASSERT_OK(Unstage());
  ExpectNothingIsLeft();
}

TEST_F(VolumeFaultsTest, AStagingForTheHostThatTheKubeletRepeatsIsKnown) {
  handler_->Lose(Capability::FS_GROUP_CHANGE_POLICY_ALWAYS);
  ASSERT_OK(Stage());
  driver_->script().Fail("NodeStageVolume", base::Error(StatusCode::kDeadlineExceeded, "slow"));
  EXPECT_EQ(Publish().code(), StatusCode::kDeadlineExceeded);
  ASSERT_OK(Stage());  // as after a restart of the kubelet
  EXPECT_THAT(driver_->state().StagingPaths(), ElementsAre(Staging()));
  ASSERT_OK(Publish());
  EXPECT_EQ(driver_->script().Count("NodeStageVolume"), 2);
}

// The kubelet forgets the pod's volume after a final error, and never unpublishes it.
TEST_F(VolumeFaultsTest, WhatAnEarlierCallLeftIsNeverForgotten) {
  const Status no = base::Error(StatusCode::kInternal, "no");
  const std::vector<std::pair<const char*, std::function<void()>>> failures = {
      {"the access modes are not allowed",
       [&] {
         client_.Add(Json{{"apiVersion", "node.k8s.io/v1"},
                          {"kind", "RuntimeClass"},
                          {"metadata",
                           {{"name", "sandboxed"},
                            {"annotations",
                             {{"storage.berth.dev/fs-mgmt-socket", handler_->socket()},
                              {"storage.berth.dev/sandbox-access-modes", "ReadOnlyMany"}}}}},
                          {"handler", "berth"}});
       }},
      {"the driver's capabilities", [&] { driver_->script().Fail("NodeGetCapabilities", no); }},
      {"the handler's capabilities",
       [&] { handler_->script().Fail("RuntimeGetCapabilities", no); }},
      {"the API", [&] { client_.SetOutage(base::Error(StatusCode::kPermissionDenied, "no")); }},
      {"the handler keeps it", [&] { handler_->script().Fail("RuntimeUnpublishVolume", no); }},
      {"the driver", [&] { driver_->script().Fail("NodeStageVolume", no); }},
      {"the handler is another one",
       [&] {
         handler_->Lose(Capability::POD_VOLUMES);
         driver_->script().Fail("NodeUnpublishVolume", no);
       }},
  };
  for (const auto& [what, fail] : failures) {
    SCOPED_TRACE(what);
    ASSERT_OK(Stage());
    handler_->script().Fail("RuntimePublishVolume", no);
    EXPECT_EQ(Publish().code(), StatusCode::kUnavailable);
    fail();
    const Status failed = Publish();
    EXPECT_FALSE(failed.ok());
    EXPECT_FALSE(rpc::IsFinal(failed)) << failed;
    client_.SetOutage(base::OkStatus());
    SetHandler("sandboxed");
    handler_->Lose(Capability::POD_VOLUMES);
    handler_->options().capabilities.push_back(Capability::POD_VOLUMES);
    ASSERT_OK(Unpublish());
    ASSERT_OK(Unstage());
    ExpectNothingIsLeft();
  }
}

TEST_F(VolumeFaultsTest, AMountByADriverThatWasToLeaveItIsUndoneAndMadeAgain) {
  driver_->state().options().node_capabilities.insert(NodeRpc::RUNTIME_ASSISTED_MOUNT);
  driver_->script().AfterEffect("NodePublishVolume", [this](const auto& message) {
    const auto& request = dynamic_cast<const csi::v1::NodePublishVolumeRequest&>(message);
    return mounter_->Mount(
        {.source = "volume", .target = request.target_path(), .fs_type = "tmpfs"});
  });
  driver_->script().AfterEffect("NodeUnpublishVolume", [this](const auto& message) {
    const auto& request = dynamic_cast<const csi::v1::NodeUnpublishVolumeRequest&>(message);
    return mounter_->Unmount(request.target_path());
  });
  ASSERT_OK(Stage());
  handler_->script().Fail("RuntimeUnpublishVolume", base::Error(StatusCode::kInternal, "no"));
  EXPECT_EQ(Publish().code(), StatusCode::kUnavailable);
  Restart();
  ASSERT_OK(Publish());
  EXPECT_EQ(handler_->script().Count("RuntimePublishVolume"), 0);
  EXPECT_THAT(driver_->state().TargetPaths(), ElementsAre(Target()));
  ASSERT_OK(Unpublish());
  ASSERT_OK(Unstage());
  ExpectNothingIsLeft();
}

TEST_F(VolumeFaultsTest, AMountOfTheHostThatTimedOutIsNeverForgotten) {
  HaveNoStages();
  AddPod("second", "");
  driver_->script().Fail("NodePublishVolume", base::Error(StatusCode::kDeadlineExceeded, "slow"));
  EXPECT_EQ(Publish("second").code(), StatusCode::kDeadlineExceeded);
  // It may still come.
  Restart();
  EXPECT_EQ(Publish().code(), StatusCode::kFailedPrecondition);
  driver_->script().Fail("NodePublishVolume", base::Error(StatusCode::kInternal, "no"));
  EXPECT_EQ(Publish("second").code(), StatusCode::kUnavailable);
  ASSERT_OK(Unpublish("second"));
  driver_->script().Fail("NodePublishVolume", base::Error(StatusCode::kInternal, "no"));
  EXPECT_EQ(Publish("second").code(), StatusCode::kInternal) << "nothing is there";
  ExpectNothingIsLeft();
}

TEST_F(VolumeFaultsTest, AMountOfTheHostThatTimedOutStaysWithTheHost) {
  HaveNoStages();
  handler_->Lose(Capability::POD_VOLUMES);
  driver_->script().LoseAnswer("NodePublishVolume");
  EXPECT_EQ(Publish().code(), StatusCode::kUnavailable);
  handler_->options().capabilities.push_back(Capability::POD_VOLUMES);
  ASSERT_OK(Publish());
  EXPECT_EQ(handler_->script().Count("RuntimePublishVolume"), 0);
  ASSERT_OK(Unpublish());
  ExpectNothingIsLeft();
}

TEST_F(VolumeFaultsTest, AVolumeDoesNotGrowWhileItIsUnpublished) {
  ASSERT_OK(Stage());
  ASSERT_OK(Publish());
  handler_->script().Hang("RuntimeUnpublishVolume");
  std::jthread unpublish([this] { EXPECT_TRUE(Unpublish().ok()); });
  ASSERT_TRUE(handler_->script().WaitFor("RuntimeUnpublishVolume"));
  csi::v1::NodeExpandVolumeRequest grow;
  grow.set_volume_id(kHandle);
  grow.set_volume_path(Target());
  grow.mutable_capacity_range()->set_required_bytes(1 << 21);
  EXPECT_EQ(volumes_->Expand(grow).status().code(), StatusCode::kAborted);
  EXPECT_EQ(driver_->script().Count("NodeExpandVolume"), 0);
  handler_->script().ReleaseAll();
  unpublish.join();
  ASSERT_OK(Unstage());
  ExpectNothingIsLeft();
}

}  // namespace
}  // namespace berth::crustproxy
