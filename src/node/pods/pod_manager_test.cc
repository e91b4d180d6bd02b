#include "node/pods/pod_manager.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>

#include "node/containers/cri_labels.h"
#include "node/pods/pod_manager_fixture.h"

namespace berth::node {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

INSTANTIATE_TEST_SUITE_P(Runtime, PodManagerTest,
                         ::testing::Values(rpc::FakeRuntime::kContainerd,
                                           rpc::FakeRuntime::kOldContainerd,
                                           rpc::FakeRuntime::kCrio),
                         [](const auto& info) { return NameOf(info.param); });

TEST_P(PodManagerTest, RunsAPodAndSaysSo) {
  StartAgent();
  const std::string uid = AddPod("web");
  ASSERT_TRUE(WaitPhase("web", "Running"));
  const Json pod = PodNow("web");
  const Json status = ContainerStatus(pod);
  EXPECT_TRUE(json::Bool(status, {"ready"}));
  EXPECT_TRUE(json::Bool(status, {"started"}));
  EXPECT_EQ(json::Int(status, {"restartCount"}), 0);
  EXPECT_THAT(json::String(status, {"containerID"}), HasSubstr("fake://container-"));
  EXPECT_FALSE(json::String(status, {"imageID"}).empty());
  EXPECT_EQ(json::String(pod, {"status", "hostIP"}), "192.0.2.1");
  EXPECT_FALSE(json::String(pod, {"status", "podIP"}).empty());
  EXPECT_EQ(json::String(pod, {"status", "qosClass"}), "BestEffort");
  std::map<std::string, std::string> conditions;
  for (const Json& condition : json::Array(pod, {"status", "conditions"})) {
    conditions[json::String(condition, {"type"})] = json::String(condition, {"status"});
  }
  EXPECT_EQ(conditions["Ready"], "True");
  EXPECT_EQ(conditions["Initialized"], "True");
  EXPECT_TRUE(events_.WaitFor("web Started: Started container main"));

  const auto sandboxes = runtime_->state().Sandboxes();
  ASSERT_THAT(sandboxes, SizeIs(1));
  EXPECT_EQ(sandboxes[0].config.hostname(), "web");
  EXPECT_EQ(sandboxes[0].config.labels().at(labels::kPodUid), uid);
  EXPECT_EQ(sandboxes[0].config.log_directory(), folder_ + "/logs/default_web_" + uid);
  const auto container = runtime_->state().FindContainer(uid, "main");
  ASSERT_TRUE(container.has_value());
  EXPECT_EQ(container->config.log_path(), "main/0.log");
}

TEST_P(PodManagerTest, StartsWithoutWaitingForItsOwnStatusWrites) {
  client_.FailNext("patch", "pods/status", base::Error(StatusCode::kUnavailable, "busy"));
  StartAgent();
  AddPod("web");
  EXPECT_TRUE(runtime_->script().WaitFor("StartContainer"));
  ASSERT_TRUE(WaitPhase("web", "Running"));
}

TEST_P(PodManagerTest, WaitsForVolumesAndSaysForWhich) {
  volumes_.SetReady(false, "volume 'data': waiting for claim 'c' to be bound");
  StartAgent();
  AddPod("web");
  ASSERT_TRUE(WaitPod("web", [](const Json& pod) {
    return json::String(ContainerStatus(pod), {"state", "waiting", "message"}) ==
           "volume 'data': waiting for claim 'c' to be bound";
  }));
  EXPECT_EQ(runtime_->script().Count("RunPodSandbox"), 0);
  volumes_.SetReady(true);
  EXPECT_TRUE(WaitPhase("web", "Running"));
}

TEST_P(PodManagerTest, APodWhoseVolumeFindsNoRoomOnTheNodeFailsSoThatAnotherIsPlacedElsewhere) {
  volumes_.SetNoRoom("volume 'data': attaching volume 'pv-1' to node 'node-a' failed: full");
  StartAgent();
  AddPod("web");
  ASSERT_TRUE(WaitPhase("web", "Failed"));
  EXPECT_TRUE(WaitPod("web", [](const Json& pod) {
    return json::String(pod, {"status", "reason"}) == "VolumeAttachmentLimitExceeded" &&
           json::String(pod, {"status", "message"}).find("failed: full") != std::string::npos;
  }));
  EXPECT_EQ(runtime_->script().Count("RunPodSandbox"), 0);
}

TEST_P(PodManagerTest, MakesTheSandboxWhileTheLastVolumesAreMounted) {
  volumes_.SetBegun();
  StartAgent();
  AddPod("web");
  ASSERT_TRUE(runtime_->script().WaitFor("RunPodSandbox"));
  ASSERT_TRUE(WaitPod("web", [](const Json& pod) {
    return json::String(ContainerStatus(pod), {"state", "waiting", "message"}) ==
           "volume 'data': it is being set up";
  }));
  EXPECT_EQ(runtime_->script().Count("CreateContainer"), 0);
  volumes_.SetReady(true);
  EXPECT_TRUE(WaitPhase("web", "Running"));
  EXPECT_EQ(runtime_->script().Count("RunPodSandbox"), 1);
}

TEST_P(PodManagerTest, RunsInitContainersInOrderBeforeTheOthers) {
  runtime_->state().ExitWhenStarted("first", 0);
  StartAgent();
  const std::string uid = AddPod("web", {{"initContainers",
                                          {{{"name", "first"}, {"image", "busybox:1"}},
                                           {{"name", "second"}, {"image", "busybox:1"}}}}});
  ASSERT_TRUE(WaitPod("web", [](const Json& pod) {
    const Json& init = json::Array(pod, {"status", "initContainerStatuses"});
    return init.size() == 2 && json::Find(init[1], {"state", "running"}) != nullptr;
  }));
  EXPECT_EQ(runtime_->script().Count("StartContainer"), 2);
  EXPECT_EQ(json::String(ContainerStatus(PodNow("web")), {"state", "waiting", "reason"}),
            "PodInitializing");
  ASSERT_TRUE(runtime_->state().Exit(RunningId(uid, "second"), 0).ok());
  EXPECT_TRUE(WaitPhase("web", "Running"));
}

TEST_P(PodManagerTest, EndsAPodThatNeverRestarts) {
  StartAgent();
  const std::string uid = AddPod("job", {{"restartPolicy", "Never"}});
  ASSERT_TRUE(WaitPhase("job", "Running"));
  ASSERT_TRUE(runtime_->state().Exit(RunningId(uid, "main"), 3).ok());
  ASSERT_TRUE(WaitPhase("job", "Failed"));
  EXPECT_EQ(json::Int(ContainerStatus(PodNow("job")), {"state", "terminated", "exitCode"}), 3);
  EXPECT_TRUE(volumes_.WaitReleased(uid));
  EXPECT_EQ(runtime_->script().Count("StartContainer"), 1);
}

TEST_P(PodManagerTest, RestartsAContainerOnceAtOnceAndThenBacksOff) {
  StartAgent();
  const std::string uid = AddPod("web");
  ASSERT_TRUE(WaitPhase("web", "Running"));
  ASSERT_TRUE(runtime_->state().Exit(RunningId(uid, "main"), 1).ok());
  ASSERT_TRUE(WaitPod("web", [](const Json& pod) {
    const Json status = ContainerStatus(pod);
    return json::Int(status, {"restartCount"}) == 1 &&
           json::Find(status, {"state", "running"}) != nullptr;
  }));
  EXPECT_EQ(json::Int(ContainerStatus(PodNow("web")), {"lastState", "terminated", "exitCode"}), 1);
  ASSERT_TRUE(runtime_->state().Exit(RunningId(uid, "main"), 1).ok());
  ASSERT_TRUE(WaitWaiting("web", "CrashLoopBackOff"));
  EXPECT_THAT(json::String(ContainerStatus(PodNow("web")), {"state", "waiting", "message"}),
              HasSubstr("back-off 10s restarting failed container=main pod=web_default"));
  EXPECT_EQ(json::String(PodNow("web"), {"status", "phase"}), "Running");
}

TEST_P(PodManagerTest, DeletesAPodInOrder) {
  StartAgent();
  const std::string uid = AddPod("web");
  ASSERT_TRUE(WaitPhase("web", "Running"));
  volumes_.SetReleases(false);
  DeletePod("web", 7);
  ASSERT_TRUE(volumes_.WaitReleased(uid));
  EXPECT_THAT(runtime_->state().Sandboxes(), IsEmpty());
  EXPECT_EQ(runtime_->script().LastRequest<cri::StopContainerRequest>("StopContainer").timeout(),
            7);
  EXPECT_FALSE(PodNow("web").is_null()) << "deleted before its volumes were released";
  volumes_.SetReleases(true);
  EXPECT_TRUE(WaitGone("web"));
  ASSERT_TRUE(client_.WaitUntil([&] {
    const auto left = platform::ListFolder(folder_ + "/data/pods");
    return left.ok() && left->empty();
  })) << "a record is left";
  EXPECT_FALSE(platform::ListFolder(paths_->Pod(uid)).ok());
  EXPECT_FALSE(platform::ListFolder(folder_ + "/logs/default_web_" + uid).ok());
}

TEST_P(PodManagerTest, TellsThatAContainerDoesNotEnd) {
  StartAgent();
  AddPod("web");
  ASSERT_TRUE(WaitPhase("web", "Running"));
  runtime_->script().Fail("StopContainer",
                          base::Error(base::StatusCode::kDeadlineExceeded, "the process stays"));
  DeletePod("web", 7);
  EXPECT_TRUE(events_.WaitFor("web FailedKillPod"));
  EXPECT_TRUE(WaitGone("web"));
}

TEST_P(PodManagerTest, TellsWhichRuntimeIsMissingAndStartsWhenItComes) {
  runtime_->GoAway();
  StartAgent();
  AddPod("web");
  ASSERT_TRUE(WaitWaiting("web", "RuntimeUnreachable"));
  EXPECT_THAT(json::String(ContainerStatus(PodNow("web")), {"state", "waiting", "message"}),
              HasSubstr("container runtime at '" + runtime_->socket() + "' is not reachable: "));
  EXPECT_TRUE(events_.WaitFor("web RuntimeUnreachable"));
  ASSERT_TRUE(runtime_->ComeBack().ok());
  EXPECT_TRUE(WaitPhase("web", "Running"));
}

TEST_P(PodManagerTest, DeletesAPodThatNeverRanWithoutARuntime) {
  runtime_->GoAway();
  StartAgent();
  AddPod("web");
  ASSERT_TRUE(WaitWaiting("web", "RuntimeUnreachable"));
  DeletePod("web");
  EXPECT_TRUE(WaitGone("web"));
}

TEST_P(PodManagerTest, TakesRunningContainersOnAfterARestart) {
  StartAgent();
  const std::string uid = AddPod("web");
  ASSERT_TRUE(WaitPhase("web", "Running"));
  const std::string id = RunningId(uid, "main");
  StopAgent();
  StartAgent();
  ASSERT_TRUE(runtime_->state().Exit(id, 1).ok());
  ASSERT_TRUE(WaitPod("web", [](const Json& pod) {
    return json::Int(ContainerStatus(pod), {"restartCount"}) == 1;
  }));
  EXPECT_EQ(runtime_->script().Count("RunPodSandbox"), 1);
  EXPECT_EQ(runtime_->script().Count("StartContainer"), 2);
}

TEST_P(PodManagerTest, TearsDownAPodThatWasDeletedWhileItWasDown) {
  StartAgent();
  const std::string uid = AddPod("web", {{"terminationGracePeriodSeconds", 9}});
  ASSERT_TRUE(WaitPhase("web", "Running"));
  StopAgent();
  ASSERT_TRUE(client_.Remove(api::kinds::kPod, "default", "web"));
  StartAgent();
  ASSERT_TRUE(volumes_.WaitReleased(uid));
  EXPECT_THAT(runtime_->state().Sandboxes(), IsEmpty());
  EXPECT_EQ(runtime_->script().LastRequest<cri::StopContainerRequest>("StopContainer").timeout(),
            9);
}

TEST_P(PodManagerTest, TearsDownAPodWhoseRecordIsDamaged) {
  StartAgent();
  const std::string uid = AddPod("web");
  ASSERT_TRUE(WaitPhase("web", "Running"));
  StopAgent();
  std::ofstream(fmt::format("{}/data/pods/{}.json", folder_, uid), std::ios::trunc) << "{";
  ASSERT_TRUE(client_.Remove(api::kinds::kPod, "default", "web"));
  StartAgent();
  ASSERT_TRUE(volumes_.WaitReleased(uid));
  EXPECT_THAT(runtime_->state().Sandboxes(), IsEmpty());
}

TEST_P(PodManagerTest, RecordsAPodBeforeItsSandboxMayExist) {
  std::atomic<int> recorded = 0;
  runtime_->script().AfterEffect("RunPodSandbox", [&](const google::protobuf::Message& message) {
    const auto& request = dynamic_cast<const cri::RunPodSandboxRequest&>(message);
    const auto record = platform::ReadFile(
        fmt::format("{}/data/pods/{}.json", folder_, request.config().metadata().uid()));
    if (record.ok() && record->find(R"("sandboxPossible":true)") != std::string::npos) ++recorded;
    return base::OkStatus();
  });
  StartAgent();
  AddPod("web");
  ASSERT_TRUE(WaitPhase("web", "Running"));
  EXPECT_EQ(recorded, 1);
}

TEST_P(PodManagerTest, WaitsLongerAfterEachSandboxThatFailsAlsoIfTheRuntimeListsIt) {
  runtime_->script().AfterEffect("RunPodSandbox", [&](const google::protobuf::Message&) {
    for (const auto& sandbox : runtime_->state().Sandboxes()) {
      (void)runtime_->state().KillSandbox(sandbox.status.id());
    }
    return base::Error(StatusCode::kUnknown, "failed to setup network for sandbox");
  });
  StartAgent();
  AddPod("web");
  ASSERT_TRUE(runtime_->script().WaitFor("RunPodSandbox", 2));
  std::this_thread::sleep_for(std::chrono::seconds(3));
  // After 1 and 2 seconds; a slow machine makes it fewer.
  EXPECT_LE(runtime_->script().Count("RunPodSandbox"), 4);
}

TEST_P(PodManagerTest, LeavesSandboxesOfOthersAlone) {
  cri::RunPodSandboxRequest request;
  request.mutable_config()->mutable_metadata()->set_name("other");
  request.mutable_config()->mutable_metadata()->set_namespace_("default");
  request.mutable_config()->mutable_metadata()->set_uid("uid-of-a-kubelet");
  (*request.mutable_config()->mutable_labels())[labels::kPodUid] = "uid-of-a-kubelet";
  auto other = rpc::CriClient::New(runtime_->socket());
  ASSERT_TRUE(other.ok());
  ASSERT_TRUE((*other)->RunPodSandbox(request, std::chrono::seconds(10)).ok());
  StartAgent();
  AddPod("web");
  ASSERT_TRUE(WaitPhase("web", "Running"));
  ASSERT_TRUE(manager_->WaitIdle(std::chrono::seconds(10)));
  EXPECT_EQ(runtime_->script().Count("StopPodSandbox"), 0);
  EXPECT_THAT(runtime_->state().Sandboxes(), SizeIs(2));
}

TEST_P(PodManagerTest, MakesAContainerAgainThatWasCreatedAndNeverStarted) {
  runtime_->script().Hang("StartContainer");
  StartAgent();
  const std::string uid = AddPod("web");
  ASSERT_TRUE(runtime_->script().WaitFor("StartContainer"));
  StopAgent();
  runtime_->script().Release("StartContainer");
  StartAgent();
  ASSERT_TRUE(WaitPhase("web", "Running"));
  EXPECT_EQ(runtime_->script().Count("RunPodSandbox"), 1);
  EXPECT_EQ(json::Int(ContainerStatus(PodNow("web")), {"restartCount"}), 0);
  const auto containers = runtime_->state().Containers();
  EXPECT_THAT(containers, SizeIs(1)) << "the half-made container is still there";
}

TEST_P(PodManagerTest, APodThatNeverRestartsDoesNotFailWhenTheAgentIsKilledWhileItStarts) {
  runtime_->script().Hang("StartContainer");
  StartAgent();
  AddPod("web", {{"restartPolicy", "Never"}});
  ASSERT_TRUE(runtime_->script().WaitFor("StartContainer"));
  StopAgent();
  const std::string cut_off = runtime_->state().Containers()[0].status.id();
  ASSERT_TRUE(runtime_->state().CutOffStart(cut_off).ok());
  runtime_->script().Release("StartContainer");
  StartAgent();
  ASSERT_TRUE(WaitPhase("web", "Running")) << PodNow("web").dump(1);
  const auto containers = runtime_->state().Containers();
  ASSERT_THAT(containers, SizeIs(1));
  EXPECT_NE(containers[0].status.id(), cut_off);
}

TEST_P(PodManagerTest, MakesANewSandboxWhenItDied) {
  StartAgent();
  AddPod("web");
  ASSERT_TRUE(WaitPhase("web", "Running"));
  ASSERT_TRUE(runtime_->state().KillSandbox(runtime_->state().Sandboxes()[0].status.id()).ok());
  ASSERT_TRUE(WaitPod("web", [](const Json& pod) {
    const Json status = ContainerStatus(pod);
    return json::Int(status, {"restartCount"}) == 1 &&
           json::Find(status, {"state", "running"}) != nullptr;
  })) << PodNow("web").dump(1);
  EXPECT_EQ(runtime_->script()
                .LastRequest<cri::RunPodSandboxRequest>("RunPodSandbox")
                .config()
                .metadata()
                .attempt(),
            1u);
}

TEST_P(PodManagerTest, SaysWhyAnImageIsMissing) {
  StartAgent();
  AddPod("web", {{"containers",
                  {{{"name", "main"}, {"image", "absent:1"}, {"imagePullPolicy", "Never"}}}}});
  ASSERT_TRUE(WaitWaiting("web", "ErrImageNeverPull"));
}

TEST_P(PodManagerTest, BacksOffAPullThatFails) {
  runtime_->script().Fail("PullImage", base::Error(StatusCode::kUnavailable, "registry is away"),
                          1);
  StartAgent();
  AddPod("web", {{"containers", {{{"name", "main"}, {"image", "absent:1"}}}}});
  ASSERT_TRUE(WaitWaiting("web", "ImagePullBackOff"));
  EXPECT_TRUE(events_.WaitFor("registry is away"));
}

TEST_P(PodManagerTest, SaysWhichSecretIsMissingAndNeverItsValue) {
  StartAgent();
  AddPod("web", {{"containers",
                  {{{"name", "main"},
                    {"image", "busybox:1"},
                    {"env",
                     {{{"name", "A"},
                       {"valueFrom", {{"secretKeyRef", {{"name", "s"}, {"key", "k"}}}}}}}}}}}});
  ASSERT_TRUE(WaitWaiting("web", "CreateContainerConfigError"));
  EXPECT_EQ(json::String(ContainerStatus(PodNow("web")), {"state", "waiting", "message"}),
            "secret \"s\" not found");
  client_.Add({{"apiVersion", "v1"},
               {"kind", "Secret"},
               {"metadata", {{"name", "s"}, {"namespace", "default"}}},
               {"data", {{"k", "aHVzaA=="}}}});
  ASSERT_TRUE(WaitPhase("web", "Running"));
  for (const std::string& event : events_.All())
    EXPECT_THAT(event, ::testing::Not(HasSubstr("hush")));
}

TEST_P(PodManagerTest, SaysThatAnEnvironmentIsTooLong) {
  StartAgent();
  AddPod("web", {{"containers",
                  {{{"name", "main"},
                    {"image", "busybox:1"},
                    {"env",
                     {{{"name", "A"}, {"value", std::string(100'000, 'x')}},
                      {{"name", "B"}, {"value", "$(A)$(A)$(A)$(A)$(A)$(A)$(A)$(A)$(A)$(A)"}},
                      {{"name", "C"}, {"value", "$(B)$(B)$(B)$(B)$(B)$(B)$(B)"}}}}}}}});
  ASSERT_TRUE(WaitWaiting("web", "CreateContainerConfigError"));
  EXPECT_THAT(json::String(ContainerStatus(PodNow("web")), {"state", "waiting", "message"}),
              HasSubstr("execve takes no more"));
  EXPECT_TRUE(events_.WaitFor("web Failed: Error: the environment"));
}

// Its verbose status holds its environment twice, and may be longer than the runtime may answer.
TEST_P(PodManagerTest, AContainerWhoseVerboseStatusIsTooLongStopsNothing) {
  runtime_->script().AfterEffect("ContainerStatus", [](const google::protobuf::Message& request) {
    const bool verbose = dynamic_cast<const cri::ContainerStatusRequest&>(request).verbose();
    return verbose ? base::Error(StatusCode::kResourceExhausted, "message larger than max")
                   : base::OkStatus();
  });
  StartAgent();
  const std::string uid = AddPod("web", {{"restartPolicy", "Never"}});
  AddPod("other");
  ASSERT_TRUE(WaitPhase("web", "Running"));
  ASSERT_TRUE(WaitPhase("other", "Running"));
  ASSERT_TRUE(runtime_->script().WaitFor("ContainerStatus", 2));
  DeletePod("other");
  EXPECT_TRUE(WaitGone("other"));
  ASSERT_TRUE(runtime_->state().Exit(RunningId(uid, "main"), 3).ok());
  EXPECT_TRUE(WaitPhase("web", "Failed"));
  EXPECT_TRUE(manager_->RuntimeReachable().ok());
}

TEST_P(PodManagerTest, AContainerThatCannotBeReadStopsNoOtherPodAndIsNotTakenForDone) {
  StartAgent();
  const std::string uid = AddPod("web", {{"restartPolicy", "OnFailure"}});
  ASSERT_TRUE(WaitPhase("web", "Running"));
  const std::string id = RunningId(uid, "main");
  const std::string before = json::String(ContainerStatus(PodNow("web")), {"containerID"});
  runtime_->script().AfterEffect("ContainerStatus", [id](const google::protobuf::Message& request) {
    const auto& status = dynamic_cast<const cri::ContainerStatusRequest&>(request);
    return status.container_id() == id ? base::Error(StatusCode::kInternal, "it is damaged")
                                       : base::OkStatus();
  });
  ASSERT_TRUE(runtime_->state().Exit(id, 3).ok());
  ASSERT_TRUE(events_.WaitFor("web ContainerStatusUnknown: "));
  AddPod("other");
  ASSERT_TRUE(WaitPhase("other", "Running"));
  DeletePod("other");
  ASSERT_TRUE(WaitGone("other"));
  EXPECT_TRUE(manager_->RuntimeReachable().ok());
  EXPECT_EQ(json::String(PodNow("web"), {"status", "phase"}), "Running");
  EXPECT_EQ(runtime_->script().Count("RemoveContainer"), 0);
  // It restarts when the runtime says how it ended.
  runtime_->script().AfterEffect("ContainerStatus",
                                 [](const google::protobuf::Message&) { return base::OkStatus(); });
  EXPECT_TRUE(WaitPod("web", [&](const Json& pod) {
    return json::Int(ContainerStatus(pod), {"lastState", "terminated", "exitCode"}) == 3;
  }));
}

TEST_P(PodManagerTest, APodWhoseContainerCannotBeReadCanBeDeleted) {
  StartAgent();
  const std::string uid = AddPod("web");
  ASSERT_TRUE(WaitPhase("web", "Running"));
  runtime_->script().Fail("ContainerStatus", base::Error(StatusCode::kInternal, "it is damaged"),
                          rpc::CallScript::kAlways);
  DeletePod("web");
  EXPECT_TRUE(WaitGone("web"));
}

TEST_P(PodManagerTest, SaysWhichAnnotationsTheRuntimeDoesNotGet) {
  StartAgent();
  Json pod = PodJson("web");
  pod["metadata"]["annotations"] = {{"example.com/short", "x"},
                                    {"example.com/long", std::string(100'000, 'x')}};
  client_.Add(pod);
  ASSERT_TRUE(WaitPhase("web", "Running"));
  EXPECT_TRUE(events_.WaitFor("web MetadataLeftOut: "));
  const auto sandboxes = runtime_->state().Sandboxes();
  ASSERT_THAT(sandboxes, SizeIs(1));
  EXPECT_TRUE(sandboxes[0].config.annotations().contains("example.com/short"));
  EXPECT_FALSE(sandboxes[0].config.annotations().contains("example.com/long"));
}

TEST_P(PodManagerTest, RotatesALogThatIsTooLong) {
  StartAgent();
  const std::string uid = AddPod("web");
  ASSERT_TRUE(WaitPhase("web", "Running"));
  const std::string folder = fmt::format("{}/logs/default_web_{}/main", folder_, uid);
  std::ofstream(folder + "/0.log").close();
  std::filesystem::resize_file(folder + "/0.log", 11 << 20);
  ASSERT_TRUE(runtime_->script().WaitFor("ReopenContainerLog"));
  EXPECT_THAT(*platform::ListFolder(folder),
              ::testing::ElementsAre(::testing::StartsWith("0.log.20")));
}

TEST_P(PodManagerTest, StopsAndRestartsAContainerWhoseLivenessProbeFails) {
  std::atomic<int> exit_code{1};
  runtime_->state().SetExecSync([&](const cri::ExecSyncRequest&) {
    cri::ExecSyncResponse response;
    response.set_exit_code(exit_code);
    return response;
  });
  StartAgent();
  AddPod("web", {{"containers",
                  {{{"name", "main"},
                    {"image", "busybox:1"},
                    {"livenessProbe",
                     {{"exec", {{"command", {"check"}}}},
                      {"periodSeconds", 1},
                      {"failureThreshold", 1}}}}}}});
  EXPECT_TRUE(
      events_.WaitFor("web Killing: Container main failed liveness probe, will be restarted"));
  exit_code = 0;
  ASSERT_TRUE(WaitPod("web", [](const Json& pod) {
    return json::Int(ContainerStatus(pod), {"restartCount"}) >= 1;
  }));
}

TEST_P(PodManagerTest, RunsThePreStopHookBeforeTheStop) {
  StartAgent();
  AddPod("web", {{"containers",
                  {{{"name", "main"},
                    {"image", "busybox:1"},
                    {"lifecycle", {{"preStop", {{"exec", {{"command", {"drain"}}}}}}}}}}}});
  ASSERT_TRUE(WaitPhase("web", "Running"));
  DeletePod("web");
  ASSERT_TRUE(WaitGone("web"));
  std::vector<std::string> order;
  for (const std::string& method : runtime_->script().Methods()) {
    if (method == "ExecSync" || method == "StopContainer") order.push_back(method);
  }
  EXPECT_THAT(order, ::testing::ElementsAre("ExecSync", "StopContainer"));
}

}  // namespace
}  // namespace berth::node
