// When a pod's deferred volumes are put into its sandbox and taken out, beside what the container
// runtime and the volume manager are asked. As root, whom alone a runtime handler serves.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/assert_ok.h"
#include "base/ipc/crust_call.h"
#include "node/pods/pod_manager_fixture.h"
#include "node/pods/pod_sandbox_volumes.h"
#include "rpc/fake_crust.h"

namespace berth::node {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;
using PublishRequest = rpc::crust::RuntimePublishVolumeRequest;
using UnpublishRequest = rpc::crust::RuntimeUnpublishVolumeRequest;

constexpr const char* kPublish = "RuntimePublishVolume";
constexpr const char* kUnpublish = "RuntimeUnpublishVolume";

class PodSandboxVolumesTest : public PodManagerTest {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "skipped: a runtime handler is root's";
    PodManagerTest::SetUp();
    auto handler = rpc::FakeCrust::Start();
    ASSERT_OK(handler);
    handler_ = *std::move(handler);
    client_.Add({{"apiVersion", "node.k8s.io/v1"},
                 {"kind", "RuntimeClass"},
                 {"metadata", {{"name", "sandboxed"}}},
                 {"handler", "sandboxed"}});
    volumes_.Defer({.name = "data",
                    .socket = handler_->socket(),
                    .target = "/kubelet/pods/1/volumes/kubernetes.io~csi/pv/mount",
                    .mount = {.source = "/dev/loop7", .fs_type = "xfs", .fs_group = 5}});
  }
  void TearDown() override {
    if (IsSkipped()) return;
    PodManagerTest::TearDown();
  }

  std::string AddSandboxedPod() {
    return AddPod("web", {{"runtimeClassName", "sandboxed"},
                          {"containers", {{{"name", "main"}, {"image", "busybox:1"}}}}});
  }

  std::unique_ptr<rpc::FakeCrust> handler_;
};

INSTANTIATE_TEST_SUITE_P(Runtime, PodSandboxVolumesTest,
                         ::testing::Values(rpc::FakeRuntime::kContainerd));

TEST_P(PodSandboxVolumesTest, TheyAreInTheSandboxBeforeItsContainersAndThePlanBeforeTheSandbox) {
  runtime_->script().AfterEffect("RunPodSandbox", [&](const google::protobuf::Message& message) {
    const auto& request = dynamic_cast<const cri::RunPodSandboxRequest&>(message);
    const std::string plan =
        base::ipc::crust::PlanPath(crust_folder_, request.config().metadata().uid());
    EXPECT_TRUE(std::filesystem::exists(plan));
    EXPECT_EQ(handler_->script().Count(kPublish), 0);
    return base::OkStatus();
  });
  handler_->script().AfterEffect(kPublish, [&](const google::protobuf::Message&) {
    EXPECT_EQ(runtime_->script().Count("RunPodSandbox"), 1);
    EXPECT_EQ(runtime_->script().Count("CreateContainer"), 0);
    return base::OkStatus();
  });
  StartAgent();
  const std::string uid = AddSandboxedPod();
  ASSERT_TRUE(WaitPhase("web", "Running"));
  ASSERT_THAT(runtime_->state().Sandboxes(), SizeIs(1));
  const std::string sandbox = runtime_->state().Sandboxes()[0].status.id();
  const auto request = handler_->script().LastRequest<PublishRequest>(kPublish);
  EXPECT_EQ(request.sandbox_id(), sandbox);
  EXPECT_EQ(request.host_volume_id(), "/dev/loop7");
  EXPECT_EQ(request.file_system(), "xfs");
  EXPECT_EQ(request.fsgroup_gid(), 5);
  EXPECT_EQ(request.fsgroup_policy(), "Always");
  EXPECT_EQ(volumes_.placed_in(uid), sandbox);
}

TEST_P(PodSandboxVolumesTest, ThePlanGoesWithThePodAndWithWhatACrashLeftOfIt) {
  StartAgent();
  const std::string uid = AddSandboxedPod();
  ASSERT_TRUE(WaitPhase("web", "Running"));
  const std::string plans = base::ipc::crust::PlanFolder(crust_folder_);
  std::ofstream(plans + "/." + uid + ".json.tmp-Ab12Cd") << "{";
  DeletePod("web");
  ASSERT_TRUE(WaitGone("web"));
  EXPECT_TRUE(std::filesystem::is_empty(plans));
}

TEST_P(PodSandboxVolumesTest, AVolumeThatIsStillInUseIsNotReleased) {
  StartAgent();
  const std::string uid = AddSandboxedPod();
  ASSERT_TRUE(WaitPhase("web", "Running"));
  handler_->script().Fail(
      kUnpublish, base::Error(StatusCode::kFailedPrecondition, "/dev/loop7 is still in use"),
      rpc::CallScript::kAlways);
  DeletePod("web");
  ASSERT_TRUE(handler_->script().WaitFor(kUnpublish, 2));
  // The sandbox is stopped, and once more if the runtime's list came from before.
  EXPECT_EQ(runtime_->script().Count("RemovePodSandbox"), 0);
  EXPECT_FALSE(volumes_.released(uid));
  EXPECT_TRUE(events_.WaitFor("web FailedUnmount: "));
  handler_->script().Fail(kUnpublish, base::OkStatus(), 0);
  ASSERT_TRUE(WaitGone("web"));
  EXPECT_TRUE(volumes_.released(uid));
  EXPECT_THAT(handler_->published(), IsEmpty());
}

TEST_P(PodSandboxVolumesTest, ASandboxThatTheRuntimeHasLostIsLookedForByTheHandler) {
  StartAgent();
  const std::string uid = AddSandboxedPod();
  ASSERT_TRUE(WaitPhase("web", "Running"));
  StopAgent();
  cri::RemovePodSandboxRequest lost;
  cri::RemovePodSandboxResponse answer;
  lost.set_pod_sandbox_id(runtime_->state().Sandboxes()[0].status.id());
  ASSERT_OK(runtime_->state().Handle(lost, answer));
  ASSERT_THAT(handler_->published(), SizeIs(1));
  handler_->script().AfterEffect(kUnpublish, [&](const google::protobuf::Message&) {
    EXPECT_FALSE(volumes_.released(uid));
    return base::OkStatus();
  });
  DeletePod("web");
  StartAgent();
  ASSERT_TRUE(WaitGone("web"));
  EXPECT_THAT(handler_->published(), IsEmpty());
  EXPECT_EQ(handler_->script().LastRequest<UnpublishRequest>(kUnpublish).sandbox_id(), "");
}

TEST_P(PodSandboxVolumesTest, AWalkOverManyFilesIsToldAsTheKubeletTellsOfIt) {
  handler_->script().Fail(
      kPublish,
      base::Error(StatusCode::kAborted, "fsGroup of '/dev/loop7': 4321 files and folders so far"));
  StartAgent();
  AddSandboxedPod();
  EXPECT_TRUE(events_.WaitFor("4321 files and folders so far"));
  EXPECT_TRUE(events_.WaitFor("web VolumePermissionChangeInProgress: "));
  EXPECT_TRUE(WaitPhase("web", "Running"));
}

TEST_P(PodSandboxVolumesTest, AVolumeThatTheHandlerRefusesKeepsThePodWaiting) {
  handler_->script().Fail(
      kPublish, base::Error(StatusCode::kFailedPrecondition, "this handler gives no subPaths"),
      rpc::CallScript::kAlways);
  StartAgent();
  AddSandboxedPod();
  EXPECT_TRUE(events_.WaitFor("web FailedMount: "));
  ASSERT_TRUE(WaitWaiting("web", "ContainerCreating"));
  ASSERT_TRUE(handler_->script().WaitFor(kPublish, 2));
  EXPECT_EQ(runtime_->script().Count("CreateContainer"), 0);
}

}  // namespace
}  // namespace berth::node
