#include "rpc/cri_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "rpc/fake_cri.h"

namespace berth::rpc {
namespace {

using base::StatusCode;
using namespace std::chrono_literals;

class CriClientTest : public testing::Test {
 protected:
  void Start(FakeRuntime kind = FakeRuntime::kContainerd) {
    auto runtime = FakeCri::Start(kind);
    ASSERT_TRUE(runtime.ok()) << runtime.status();
    runtime_ = *std::move(runtime);
    runtime_->state().AddImage("busybox");
    auto client = CriClient::New("unix://" + runtime_->socket());
    ASSERT_TRUE(client.ok()) << client.status();
    client_ = *std::move(client);
  }

  std::string RunSandbox(const std::string& uid = "uid-1") {
    cri::RunPodSandboxRequest request;
    auto* metadata = request.mutable_config()->mutable_metadata();
    metadata->set_name("pod");
    metadata->set_namespace_("default");
    metadata->set_uid(uid);
    const auto answer = client_->RunPodSandbox(request, 5s);
    EXPECT_TRUE(answer.ok()) << answer.status();
    return answer.ok() ? answer->pod_sandbox_id() : "";
  }

  base::StatusOr<std::string> Create(const std::string& sandbox, const std::string& name) {
    cri::CreateContainerRequest request;
    request.set_pod_sandbox_id(sandbox);
    request.mutable_config()->mutable_metadata()->set_name(name);
    request.mutable_config()->mutable_image()->set_image("busybox");
    ASSIGN_OR_RETURN(const auto answer, client_->CreateContainer(request, 5s));
    return answer.container_id();
  }

  base::Status StartContainer(const std::string& id) {
    cri::StartContainerRequest request;
    request.set_container_id(id);
    return client_->StartContainer(request, 5s).status();
  }

  cri::ContainerStatus StatusOf(const std::string& id) {
    cri::ContainerStatusRequest request;
    request.set_container_id(id);
    const auto answer = client_->ContainerStatus(request, 5s);
    EXPECT_TRUE(answer.ok()) << answer.status();
    return answer.ok() ? answer->status() : cri::ContainerStatus();
  }

  std::unique_ptr<FakeCri> runtime_;
  std::unique_ptr<CriClient> client_;
};

TEST_F(CriClientTest, APodLivesAndEnds) {
  Start();
  const std::string sandbox = RunSandbox();
  const auto container = Create(sandbox, "main");
  ASSERT_TRUE(container.ok()) << container.status();
  EXPECT_EQ(StatusOf(*container).state(), cri::CONTAINER_CREATED);
  ASSERT_TRUE(StartContainer(*container).ok());
  EXPECT_EQ(StatusOf(*container).state(), cri::CONTAINER_RUNNING);

  ASSERT_TRUE(runtime_->state().Exit(*container, 7).ok());
  EXPECT_EQ(StatusOf(*container).state(), cri::CONTAINER_EXITED);
  EXPECT_EQ(StatusOf(*container).exit_code(), 7);

  cri::StopPodSandboxRequest stop;
  stop.set_pod_sandbox_id(sandbox);
  EXPECT_TRUE(client_->StopPodSandbox(stop, 5s).ok());
  cri::RemovePodSandboxRequest remove;
  remove.set_pod_sandbox_id(sandbox);
  EXPECT_TRUE(client_->RemovePodSandbox(remove, 5s).ok());
  EXPECT_TRUE(client_->RemovePodSandbox(remove, 5s).ok());
  const auto left = client_->ListContainers({}, 5s);
  ASSERT_TRUE(left.ok());
  EXPECT_EQ(left->containers_size(), 0);
}

TEST_F(CriClientTest, TheDoubleRefusesWhatARuntimeRefuses) {
  Start();
  EXPECT_EQ(Create("sandbox-none", "main").status().code(), StatusCode::kNotFound);
  const std::string sandbox = RunSandbox();
  ASSERT_TRUE(runtime_->state().KillSandbox(sandbox).ok());
  EXPECT_EQ(Create(sandbox, "main").status().code(), StatusCode::kUnknown);

  cri::CreateContainerRequest request;
  request.set_pod_sandbox_id(RunSandbox("uid-2"));
  request.mutable_config()->mutable_image()->set_image("busybox");
  request.mutable_config()->add_mounts()->set_host_path("/does/not/exist");
  EXPECT_EQ(client_->CreateContainer(request, 5s).status().code(), StatusCode::kUnknown);
}

TEST_F(CriClientTest, ExecSyncGivesOutputAndExitCode) {
  Start();
  const auto container = Create(RunSandbox(), "main");
  ASSERT_TRUE(container.ok()) << container.status();
  ASSERT_TRUE(StartContainer(*container).ok());
  runtime_->state().SetExecSync([](const cri::ExecSyncRequest& request) {
    cri::ExecSyncResponse response;
    response.set_stdout(request.cmd(0));
    response.set_exit_code(3);
    return response;
  });
  cri::ExecSyncRequest request;
  request.set_container_id(*container);
  request.add_cmd("true");
  const auto answer = client_->ExecSync(request, 5s);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->stdout(), "true");
  EXPECT_EQ(answer->exit_code(), 3);
}

TEST_F(CriClientTest, AnAnswerOfMoreThanFourMegabytesArrives) {
  Start();
  const auto container = Create(RunSandbox(), "main");
  ASSERT_TRUE(container.ok()) << container.status();
  ASSERT_TRUE(StartContainer(*container).ok());
  runtime_->state().SetExecSync([](const cri::ExecSyncRequest&) {
    cri::ExecSyncResponse response;
    response.set_stdout(std::string(8 * 1024 * 1024, 'x'));
    return response;
  });
  cri::ExecSyncRequest request;
  request.set_container_id(*container);
  const auto answer = client_->ExecSync(request, 20s);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->stdout().size(), 8u * 1024 * 1024);
}

TEST_F(CriClientTest, ContainerEventsAreSeenUntilStopped) {
  Start();
  std::promise<void> stopped_seen;
  std::jthread watcher([&](std::stop_token stop) {
    bool told = false;
    const base::Status status =
        client_->GetContainerEvents(stop, [&](const cri::ContainerEventResponse& event) {
          if (event.container_event_type() == cri::CONTAINER_STOPPED_EVENT && !told) {
            told = true;
            stopped_seen.set_value();
          }
        });
    EXPECT_TRUE(status.ok()) << status;
  });
  ASSERT_TRUE(runtime_->script().WaitFor("GetContainerEvents"));
  runtime_->state().ExitWhenStarted("main", 0);
  const auto container = Create(RunSandbox(), "main");
  ASSERT_TRUE(container.ok()) << container.status();
  ASSERT_TRUE(StartContainer(*container).ok());
  EXPECT_EQ(stopped_seen.get_future().wait_for(10s), std::future_status::ready);
}

TEST_F(CriClientTest, ARuntimeWithoutEventsSaysSo) {
  Start(FakeRuntime::kOldContainerd);
  const base::Status status = client_->GetContainerEvents({}, [](const auto&) {});
  EXPECT_EQ(status.code(), StatusCode::kUnimplemented);
}

TEST_F(CriClientTest, ACrioWithoutPodEventsEndsTheStream) {
  Start(FakeRuntime::kCrio);
  const base::Status status = client_->GetContainerEvents({}, [](const auto&) {});
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
}

TEST_F(CriClientTest, ABrokenEventStreamIsAnError) {
  Start();
  auto watch = std::async(std::launch::async,
                          [&] { return client_->GetContainerEvents({}, [](const auto&) {}); });
  ASSERT_TRUE(runtime_->script().WaitFor("GetContainerEvents"));
  runtime_->GoAway();
  EXPECT_EQ(watch.get().code(), StatusCode::kUnavailable);
}

TEST_F(CriClientTest, AnAbsentRuntimeIsUnavailableAndItsReturnIsSeen) {
  Start();
  runtime_->GoAway();
  EXPECT_EQ(client_->Version({}, 30s).status().code(), StatusCode::kUnavailable);
  ASSERT_TRUE(runtime_->ComeBack().ok());
  const auto version = client_->Version({}, 5s);
  EXPECT_TRUE(version.ok()) << version.status();
}

}  // namespace
}  // namespace berth::rpc
