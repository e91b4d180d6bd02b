// Nodes that share image files and an API in memory, for tests that really map and mount.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "api/kinds/kinds.h"
#include "base/ids.h"
#include "base/log.h"
#include "blockagent/attachments.h"
#include "blockagent/fake_rights.h"
#include "kube/fake_client.h"
#include "platform/devices/loop_device.h"
#include "platform/files/durable_file.h"
#include "platform/files/fake_temp_folder.h"

namespace berth::blockagent {

class FakeEvents : public base::EventSink {
 public:
  void Record(const base::ObjectReference& object, base::EventType, std::string_view reason,
              std::string_view message) override {
    base::MutexLock lock(mutex_);
    told_.push_back(fmt::format("{} {} {}", object.kind, reason, message));
  }
  std::vector<std::string> told() {
    base::MutexLock lock(mutex_);
    return told_;
  }

 private:
  base::Mutex mutex_;
  std::vector<std::string> told_ ABSL_GUARDED_BY(mutex_);
};

// An API in which a test can act just before a fence is written.
class FakeApi : public kube::FakeClient {
 public:
  using FakeClient::FakeClient;

  // Called once, before the next write of a fence. Set it only while no call runs.
  std::function<void()> before_fence_write;

  base::StatusOr<base::Json> Create(const api::KindInfo& kind, std::string_view ns,
                                    const base::Json& object) override {
    RunBeforeFenceWrite(kind);
    return FakeClient::Create(kind, ns, object);
  }
  base::StatusOr<base::Json> Update(const api::KindInfo& kind, const base::Json& object,
                                    std::string_view subresource) override {
    RunBeforeFenceWrite(kind);
    return FakeClient::Update(kind, object, subresource);
  }

 private:
  void RunBeforeFenceWrite(const api::KindInfo& kind) {
    if (&kind != &api::VolumeFence::kInfo || !before_fence_write) return;
    std::exchange(before_fence_write, nullptr)();
  }
};

class FakeSite {
 public:
  enum class Disk { kReal, kMemory };
  // kMemory is for tests that do not depend on a real disk, because it is faster.
  explicit FakeSite(Disk disk = Disk::kReal) {
    if (disk == Disk::kMemory) {
      const base::Status mounted =
          mounter->Mount({.source = "tmpfs", .target = folder.path(), .fs_type = "tmpfs"});
      EXPECT_TRUE(mounted.ok()) << mounted;
    }
    ServeBlockKinds(client);
    std::filesystem::create_directories(images());
    AddCluster();
  }
  ~FakeSite() {
    // Unmounts what a failed test left, because mounts keep devices open.
    const auto table = mounter->List();
    for (auto it = table->rbegin(); it != table->rend(); ++it) {
      if (it->mount_point.starts_with(folder.path() + "/")) {
        static_cast<void>(mounter->UnmountLazy(it->mount_point));
      }
    }
    for (const std::string& node : nodes_) {
      const auto backend = BackendOf(node);
      const auto mappings = backend->ListMappings();
      if (!mappings.ok()) continue;
      for (const auto& mapping : *mappings) {
        static_cast<void>(backend->ForceUnmap(mapping, std::chrono::seconds(5)));
      }
    }
  }

  std::string images() const { return folder / "images"; }
  base::Json Settings() const {
    base::Json settings = {{"folder", images()}};
    if (!proxy_socket_.empty()) settings["access"] = "Proxy";
    return {{"images", std::move(settings)}};
  }
  // From now on, the I/O proxy that listens at `socket` serves the volumes of all nodes.
  void ServeByProxy(const std::string& socket) {
    proxy_socket_ = socket;
    AddCluster();
  }
  std::unique_ptr<block::Backend> BackendOf(const std::string& node) {
    auto made = block::OpenBackend(Settings(), {*exec, *mounter, proxy_socket_, node});
    EXPECT_TRUE(made.ok()) << made.status();
    return *std::move(made);
  }

  // Opens an agent's attachments, as the agent does at its start.
  std::unique_ptr<Attachments> Start(const std::string& node) {
    nodes_.push_back(node);
    auto made = Attachments::Open(
        {.node = node,
         .data_folder = folder / ("data-" + node),
         .kubelet_folder = folder / ("kubelet-" + node),
         .consumers = {.lease_time = lease_time, .now = [this] { return now; }},
         .image_patience = image_patience},
        {.client = ClientOf(node),
         .exec = *exec,
         .mounter = *mounter,
         .events = events,
         .clock = clock,
         .make_backend = [this, node](const base::Json& settings) {
           return block::OpenBackend(settings, {*exec, *mounter, proxy_socket_, node});
         }});
    EXPECT_TRUE(made.ok()) << made.status();
    return *std::move(made);
  }

  // The API as the agent of `node` may use it.
  kube::Client& ClientOf(const std::string& node) {
    auto& agent = agents_[node];
    if (agent == nullptr) agent = std::make_unique<AgentClient>(client, node);
    return *agent;
  }

  void AddVolume(const std::string& name, int64_t megabytes = 64,
                 const std::vector<std::string>& modes = {"ReadWriteOnce"},
                 const std::string& fs_type = "ext4") {
    const auto image = BackendOf("operator")->Create({.name = name, .size_bytes = megabytes << 20});
    ASSERT_TRUE(image.ok()) << image.status();
    AddVolumeOf(name, name, modes, fs_type);
  }
  // Adds a PersistentVolume and the claim that it is bound to, but no image.
  void AddVolumeOf(const std::string& image, const std::string& name,
                   const std::vector<std::string>& modes = {"ReadWriteOnce"},
                   const std::string& fs_type = "ext4") {
    const std::string claim_uid = base::NewUuid();
    client.Add({{"apiVersion", "v1"},
                {"kind", "PersistentVolumeClaim"},
                {"metadata", {{"name", name}, {"namespace", "default"}, {"uid", claim_uid}}},
                {"spec", {{"volumeName", name}}},
                {"status", {{"phase", "Bound"}}}});
    client.Add({{"apiVersion", "v1"},
                {"kind", "PersistentVolume"},
                {"metadata", {{"name", name}}},
                {"spec",
                 {{"accessModes", modes},
                  {"claimRef", {{"namespace", "default"}, {"name", name}, {"uid", claim_uid}}},
                  {"flexVolume",
                   {{"driver", "berth.dev/block"},
                    {"fsType", fs_type},
                    {"options", {{"cluster", "main"}, {"image", image}}}}}}}});
  }

  // Adds a pod on a node that uses the volume, and gives the kubelet's mount call for it.
  MountCall AddPod(const std::string& node, const std::string& pod, const std::string& volume,
                   bool read_only = false) {
    const std::string uid = base::NewUuid();
    client.Add({{"apiVersion", "v1"},
                {"kind", "Pod"},
                {"metadata", {{"name", pod}, {"namespace", "default"}, {"uid", uid}}},
                {"spec",
                 {{"nodeName", node},
                  {"volumes",
                   base::Json::array(
                       {{{"name", "v"}, {"persistentVolumeClaim", {{"claimName", volume}}}}})}}}});
    const std::string dir = fmt::format("{}/pods/{}/volumes/berth.dev~block/{}",
                                        folder / ("kubelet-" + node), uid, volume);
    std::filesystem::create_directories(dir);
    return {.mount_dir = dir,
            .pod_uid = uid,
            .pod_namespace = "default",
            .pod = pod,
            .volume = volume,
            .driver = "berth.dev/block",
            .read_only = read_only};
  }
  void RemovePod(const std::string& pod) { client.Remove(api::kinds::kPod, "default", pod); }

  static Attachments::Deadline Soon() {
    return std::chrono::steady_clock::now() + std::chrono::seconds(60);
  }
  std::optional<platform::MountEntry> MountAt(const std::string& path) const {
    const auto table = *mounter->List();
    const auto* found = platform::FindMount(table, path);
    return found == nullptr ? std::nullopt : std::optional(*found);
  }
  std::vector<api::FenceEntry> Fence(const std::string& volume) const {
    const auto fence = client.Peek<api::VolumeFence>("", volume);
    return fence.has_value() ? fence->entries() : std::vector<api::FenceEntry>();
  }
  size_t Devices(const std::string& volume) const {
    const auto identity = platform::IdentifyFile(images() + "/" + volume);
    return identity.ok() ? platform::FindLoops(*identity, volume)->size() : 0;
  }

  base::FakeClock clock;
  FakeApi client{clock};
  FakeEvents events;
  std::chrono::milliseconds lease_time = kLeaseTime;
  std::chrono::milliseconds image_patience = std::chrono::seconds(10);  // of agents that start
  Consumers::Time now = std::chrono::steady_clock::now();
  platform::TempFolder folder;
  const std::unique_ptr<platform::Exec> exec = platform::NewHostExec();
  const std::unique_ptr<platform::Mounter> mounter = platform::NewMounter();

 private:
  void AddCluster() {
    client.Add({{"apiVersion", "storage.berth.dev/v1alpha1"},
                {"kind", "StorageCluster"},
                {"metadata", {{"name", "main"}}},
                {"spec", {{"backend", Settings()}}}});
  }

  std::string proxy_socket_;
  std::vector<std::string> nodes_;
  std::map<std::string, std::unique_ptr<AgentClient>> agents_;
};

}  // namespace berth::blockagent
