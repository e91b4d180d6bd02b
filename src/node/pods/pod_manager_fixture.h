// A pod manager over an API, a container runtime and a volume manager that are doubles.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kube/fake_client.h"
#include "node/pods/pod_manager.h"
#include "node/volumes/fake_volume_manager.h"
#include "platform/files/durable_file.h"
#include "rpc/fake_cri.h"

namespace berth::node {

using base::Json;
using base::StatusCode;
namespace json = base::json;
namespace cri = rpc::cri;

class EventLog : public base::EventSink {
 public:
  void Record(const base::ObjectReference& object, base::EventType, std::string_view reason,
              std::string_view message) override {
    base::MutexLock lock(mutex_);
    events_.push_back(fmt::format("{} {}: {}", object.name, reason, message));
    changed_.NotifyAll();
  }
  std::vector<std::string> All() const {
    base::MutexLock lock(mutex_);
    return events_;
  }
  bool WaitFor(const std::string& part) const {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    base::MutexLock lock(mutex_);
    while (true) {
      for (const std::string& event : events_) {
        if (event.find(part) != std::string::npos) return true;
      }
      if (std::chrono::steady_clock::now() >= deadline) return false;
      changed_.WaitUntil(mutex_, deadline);
    }
  }

 private:
  mutable base::Mutex mutex_;
  mutable base::CondVar changed_;
  std::vector<std::string> events_ ABSL_GUARDED_BY(mutex_);
};

// A mounter for tests in which nothing is mounted: it lists no mounts and refuses to mount.
class NoMounter : public platform::Mounter {
 public:
  base::StatusOr<std::vector<platform::MountEntry>> List() override {
    return std::vector<platform::MountEntry>();
  }
  base::Status Mount(const platform::MountRequest&) override { return Refuse(); }
  base::Status Unmount(std::string_view) override { return Refuse(); }
  base::Status UnmountLazy(std::string_view) override { return Refuse(); }
  base::Status MakeShared(std::string_view) override { return Refuse(); }

 private:
  static base::Status Refuse() {
    return base::Error(StatusCode::kUnimplemented, "no mounts in this test");
  }
};

class PodManagerTest : public ::testing::TestWithParam<rpc::FakeRuntime> {
 protected:
  void SetUp() override {
    char folder[] = "/tmp/berth-pods-XXXXXX";
    ASSERT_NE(mkdtemp(folder), nullptr);
    folder_ = folder;
    crust_folder_ = folder_ + "/crust";
    auto fake = rpc::FakeCri::Start(GetParam());
    ASSERT_TRUE(fake.ok()) << base::ToString(fake.status());
    runtime_ = *std::move(fake);
    runtime_->state().AddImage("busybox:1");
    paths_ = std::make_unique<volume::Paths>(folder_ + "/kubelet");
  }

  void TearDown() override {
    StopAgent();
    runtime_.reset();
    EXPECT_TRUE(platform::RemoveTree(folder_).ok());
  }

  void StartAgent() {
    auto client = rpc::CriClient::New(runtime_->socket());
    ASSERT_TRUE(client.ok());
    cri_ = *std::move(client);
    pods_ = std::make_unique<kube::Informer<api::Pod>>(client_);
    PodManagerOptions options{.settings = {.node_name = "node-a",
                                           .log_folder = folder_ + "/logs",
                                           .agent = folder_,
                                           .crust_run_folder = crust_folder_,
                                           .host_ip = [] { return std::string("192.0.2.1"); }},
                              .record_folder = folder_ + "/data/pods",
                              .cri_endpoint = runtime_->socket(),
                              .logs = {.interval = std::chrono::milliseconds(20)}};
    auto manager = PodManager::New(
        options, *paths_, client_, *pods_, *cri_, volumes_, mounter_, events_, clock_,
        [this](const api::KindInfo& kind, std::string_view ns, std::string_view name) {
          return client_.Get(kind, ns, name);
        });
    ASSERT_TRUE(manager.ok()) << base::ToString(manager.status());
    manager_ = *std::move(manager);
    ASSERT_TRUE(
        volumes_.Start([this](const std::string& uid) { manager_->OnVolumesChanged(uid); }).ok());
    manager_->Start();
    pods_->Start();
  }

  void StopAgent() {
    if (pods_ != nullptr) pods_->Stop();
    if (manager_ != nullptr) {
      (void)volumes_.Start(nullptr);
      manager_->Stop();
    }
    manager_.reset();
    pods_.reset();
    cri_.reset();
  }

  static Json PodJson(const std::string& name, Json spec = Json::object()) {
    if (!spec.contains("containers")) {
      spec["containers"] = Json::array({{{"name", "main"}, {"image", "busybox:1"}}});
    }
    spec["nodeName"] = "node-a";
    return {{"apiVersion", "v1"},
            {"kind", "Pod"},
            {"metadata", {{"name", name}, {"namespace", "default"}}},
            {"spec", std::move(spec)},
            {"status", {{"phase", "Pending"}}}};
  }
  std::string AddPod(const std::string& name, Json spec = Json::object()) {
    return json::String(client_.Add(PodJson(name, std::move(spec))), {"metadata", "uid"});
  }

  Json PodNow(const std::string& name) { return client_.Peek(api::kinds::kPod, "default", name); }
  bool WaitPod(const std::string& name, const std::function<bool(const Json& pod)>& holds) {
    return client_.WaitUntil([&] {
      const Json pod = PodNow(name);
      return !pod.is_null() && holds(pod);
    });
  }
  bool WaitPhase(const std::string& name, const std::string& phase) {
    const bool ok = WaitPod(
        name, [&](const Json& pod) { return json::String(pod, {"status", "phase"}) == phase; });
    if (!ok) ADD_FAILURE() << "pod " << name << " is: " << PodNow(name).dump(1);
    return ok;
  }
  static Json ContainerStatus(const Json& pod, size_t index = 0) {
    const Json& list = json::Array(pod, {"status", "containerStatuses"});
    return index < list.size() ? list[index] : Json::object();
  }
  bool WaitWaiting(const std::string& name, const std::string& reason) {
    const bool ok = WaitPod(name, [&](const Json& pod) {
      return json::String(ContainerStatus(pod), {"state", "waiting", "reason"}) == reason;
    });
    if (!ok) ADD_FAILURE() << "pod " << name << " is: " << PodNow(name).dump(1);
    return ok;
  }
  bool WaitGone(const std::string& name) {
    return client_.WaitUntil([&] { return PodNow(name).is_null(); });
  }
  void DeletePod(const std::string& name, int64_t grace = 5) {
    ASSERT_TRUE(
        client_.Delete(api::kinds::kPod, "default", name, {.grace_period_seconds = grace}).ok());
  }
  std::string RunningId(const std::string& uid, const std::string& container) {
    const auto found = runtime_->state().FindContainer(uid, container);
    return found.has_value() ? found->status.id() : "";
  }

  std::string folder_;
  std::string crust_folder_;
  std::unique_ptr<rpc::FakeCri> runtime_;
  std::unique_ptr<volume::Paths> paths_;
  base::SystemClock clock_;
  kube::FakeClient client_;
  FakeVolumeManager volumes_;
  NoMounter mounter_;
  EventLog events_;
  std::unique_ptr<rpc::CriClient> cri_;
  std::unique_ptr<kube::Informer<api::Pod>> pods_;
  std::unique_ptr<PodManager> manager_;
};

}  // namespace berth::node
