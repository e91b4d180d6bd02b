// Mount pods for this room's tests: a container runtime double whose ExecSync really runs the
// command, on this machine, and a kubelet folder with registrations.
#pragma once

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "base/json.h"
#include "base/mutex.h"
#include "platform/files/fake_temp_folder.h"
#include "platform/processes/exec.h"
#include "rpc/cri_client.h"
#include "rpc/fake_cri.h"
#include "volume/exec/registration.h"
#include "volume/fake_host.h"
#include "volume/utilities.h"

namespace berth::volume {

inline constexpr char kPlugin[] = "kubernetes.io/glusterfs";

class FakeMountPods {
 public:
  explicit FakeMountPods(rpc::FakeRuntime kind = rpc::FakeRuntime::kContainerd) {
    auto runtime = rpc::FakeCri::Start(kind);
    EXPECT_TRUE(runtime.ok()) << runtime.status();
    runtime_ = *std::move(runtime);
    runtime_->state().AddImage("mount-pod");
    auto client = rpc::CriClient::New(runtime_->socket(), 64 << 20);
    EXPECT_TRUE(client.ok()) << client.status();
    client_ = *std::move(client);
    runtime_->state().SetExecSync(
        [this](const rpc::cri::ExecSyncRequest& request) { return Run(request); });
    std::filesystem::create_directories(paths_.PluginContainers());
  }
  ~FakeMountPods() { runtime_.reset(); }  // no call runs after this

  static Registration PodOf(const std::string& uid) {
    return {"kube-system", "gluster-x7", uid, "gluster"};
  }

  // Starts the container of a pod, or starts it again after it ended; returns its id.
  std::string StartPod(const std::string& uid) {
    const Registration pod = PodOf(uid);
    rpc::cri::RunPodSandboxRequest sandbox;
    sandbox.mutable_config()->mutable_metadata()->set_name(pod.pod_name);
    sandbox.mutable_config()->mutable_metadata()->set_namespace_(pod.pod_namespace);
    sandbox.mutable_config()->mutable_metadata()->set_uid(uid);
    sandbox.mutable_config()->mutable_metadata()->set_attempt(starts_++);
    const auto made = client_->RunPodSandbox(sandbox, kTimeout);
    EXPECT_TRUE(made.ok()) << made.status();
    rpc::cri::CreateContainerRequest create;
    create.set_pod_sandbox_id(made->pod_sandbox_id());
    create.mutable_config()->mutable_metadata()->set_name(pod.container);
    create.mutable_config()->mutable_image()->set_image("mount-pod");
    auto& labels = *create.mutable_config()->mutable_labels();
    labels["io.kubernetes.pod.name"] = pod.pod_name;
    labels["io.kubernetes.pod.namespace"] = pod.pod_namespace;
    labels["io.kubernetes.pod.uid"] = uid;
    labels["io.kubernetes.container.name"] = pod.container;
    const auto created = client_->CreateContainer(create, kTimeout);
    EXPECT_TRUE(created.ok()) << created.status();
    rpc::cri::StartContainerRequest start;
    start.set_container_id(created->container_id());
    EXPECT_TRUE(client_->StartContainer(start, kTimeout).ok());
    return created->container_id();
  }

  std::string RegistrationPath() const {
    return paths_.PluginContainers() + "/" + Paths::PluginContainerFile(kPlugin);
  }
  static std::string TextOf(const Registration& pod) {
    return base::json::Dump({{"podNamespace", pod.pod_namespace},
                             {"podName", pod.pod_name},
                             {"podUID", pod.pod_uid},
                             {"containerName", pod.container}});
  }
  void WriteRegistration(const std::string& text) const {
    std::ofstream(RegistrationPath(), std::ios::trunc) << text;
    chmod(RegistrationPath().c_str(), 0644);
  }
  // Registers a pod that runs; returns its container's id.
  std::string Register(const std::string& uid) {
    WriteRegistration(TextOf(PodOf(uid)));
    return StartPod(uid);
  }
  void Exit(const std::string& id) { EXPECT_TRUE(runtime_->state().Exit(id, 0).ok()); }

  // Called with each command that ran in a container, after it.
  void AfterRun(std::function<void(const rpc::cri::ExecSyncRequest&)> hook) {
    base::MutexLock lock(mutex_);
    after_run_ = std::move(hook);
  }

  UtilitySurroundings Surroundings() {
    return {.data_folder = folder_ / "node",
            .cri_endpoint = runtime_->socket(),
            .paths = paths_,
            .mounter = mounter_,
            .events = events_,
            .node = {.api_version = "v1", .kind = "Node", .ns = "", .name = "node-a", .uid = ""}};
  }

  const Paths& paths() const { return paths_; }
  rpc::FakeCri& runtime() { return *runtime_; }
  rpc::CriClient& client() { return *client_; }
  FakeMounter& mounter() { return mounter_; }
  FakeEventSink& events() { return events_; }
  const platform::TempFolder& folder() const { return folder_; }

 private:
  static constexpr std::chrono::seconds kTimeout{60};

  rpc::cri::ExecSyncResponse Run(const rpc::cri::ExecSyncRequest& request) {
    platform::Command command{.timeout = std::chrono::minutes(5), .max_output = 16'000'000};
    command.argv.assign(request.cmd().begin(), request.cmd().end());
    command.env = {"BERTH_FAKE_CONTAINER=" + request.container_id()};
    const auto result = platform::NewHostExec()->Run(command);
    rpc::cri::ExecSyncResponse answer;
    if (result.ok()) {
      answer.set_stdout(result->out);
      answer.set_stderr(result->err);
      answer.set_exit_code(result->exit_code);
    } else {
      answer.set_exit_code(255);
      answer.set_stderr(base::ToString(result.status()));
    }
    std::function<void(const rpc::cri::ExecSyncRequest&)> hook;
    {
      base::MutexLock lock(mutex_);
      hook = after_run_;
    }
    if (hook) hook(request);
    return answer;
  }

  const platform::TempFolder folder_;
  const Paths paths_{folder_ / "kubelet"};
  FakeMounter mounter_;
  FakeEventSink events_;
  base::Mutex mutex_;
  std::function<void(const rpc::cri::ExecSyncRequest&)> after_run_ ABSL_GUARDED_BY(mutex_);
  uint32_t starts_ = 0;  // of containers
  std::unique_ptr<rpc::FakeCri> runtime_;
  std::unique_ptr<rpc::CriClient> client_;
};

}  // namespace berth::volume
