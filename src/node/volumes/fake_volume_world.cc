#include "node/volumes/fake_volume_world.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "api/kinds/csi_names.h"
#include "base/log.h"
#include "platform/files/durable_file.h"
#include "platform/files/record_files.h"

namespace berth::node {

using base::Json;
using base::MutexLock;

namespace {

// Polls, because a change on the disk notifies no one.
template <typename Condition>
bool WaitOnDisk(const Condition& condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

}  // namespace

FakeVolumeWorld::FakeVolumeWorld(Options options) {
  std::string pattern = "/tmp/berth-volumes-XXXXXX";
  if (mkdtemp(pattern.data()) == nullptr) std::abort();
  folder = pattern;
  host = std::make_unique<FakeVolumeHost>(client, folder + "/kubelet", kNode);
  shared = std::make_unique<FakeVolumePlugin>(
      *host, FakeVolumePlugin::Options{.needs_attach = options.needs_attach,
                                       .mounts_with_pods = options.mounts_with_pods,
                                       .defers = options.defers});
  scratch = std::make_unique<FakeVolumePlugin>(
      *host, FakeVolumePlugin::Options{.name = "kubernetes.io/empty-dir",
                                       .source_type = options.refreshes ? "configMap" : "emptyDir",
                                       .refreshes = options.refreshes});
  plugins = {shared.get(), scratch.get()};
  client.Add({{"apiVersion", "v1"}, {"kind", "Node"}, {"metadata", {{"name", kNode}}}});
}

FakeVolumeWorld::~FakeVolumeWorld() {
  StopManager();
  informers.Stop();
  if (const base::Status removed = platform::RemoveTree(folder); !removed.ok()) {
    LOG_WARNING("{}", base::ToString(removed));
  }
}

void FakeVolumeWorld::AddUnboundClaim(const std::string& name) {
  client.Add({{"apiVersion", "v1"},
              {"kind", "PersistentVolumeClaim"},
              {"metadata", {{"name", name}, {"namespace", "default"}, {"uid", "claim-" + name}}},
              {"spec", {{"accessModes", {"ReadWriteOnce"}}, {"storageClassName", "fast"}}},
              {"status", {{"phase", "Pending"}}}});
}

void FakeVolumeWorld::AddVolume(const std::string& claim, const std::string& claim_uid,
                                const std::string& mode) {
  client.Add({{"apiVersion", "v1"},
              {"kind", "PersistentVolume"},
              {"metadata", {{"name", "pv-" + claim}}},
              {"spec",
               {{"accessModes", {mode}},
                {"capacity", {{"storage", "1Gi"}}},
                {"claimRef", {{"namespace", "default"}, {"name", claim}, {"uid", claim_uid}}},
                {"csi", {{"driver", kDriver}, {"volumeHandle", "handle-" + claim}}}}},
              {"status", {{"phase", "Bound"}}}});
}

void FakeVolumeWorld::AddBoundClaim(const std::string& name, const std::string& mode) {
  AddVolume(name, "claim-" + name, mode);
  client.Add({{"apiVersion", "v1"},
              {"kind", "PersistentVolumeClaim"},
              {"metadata", {{"name", name}, {"namespace", "default"}, {"uid", "claim-" + name}}},
              {"spec", {{"accessModes", {mode}}, {"volumeName", "pv-" + name}}},
              {"status", {{"phase", "Bound"}, {"capacity", {{"storage", "1Gi"}}}}}});
}

void FakeVolumeWorld::Bind(const std::string& claim) {
  Json object = client.Peek(api::kinds::kPersistentVolumeClaim, "default", claim);
  object["spec"]["volumeName"] = "pv-" + claim;
  object["status"] = {{"phase", "Bound"}, {"capacity", {{"storage", "1Gi"}}}};
  client.Add(object);
}

void FakeVolumeWorld::Attach(const std::string& claim) {
  client.Add({{"apiVersion", "storage.k8s.io/v1"},
              {"kind", "VolumeAttachment"},
              {"metadata",
               {{"name", api::VolumeAttachmentName(api::VolumeHandle("handle-" + claim), kDriver,
                                                   api::NodeName(kNode))}}},
              {"spec",
               {{"attacher", kDriver},
                {"nodeName", kNode},
                {"source", {{"persistentVolumeName", "pv-" + claim}}}}},
              {"status", {{"attached", true}, {"attachmentMetadata", {{"lun", "7"}}}}}});
}

std::shared_ptr<const api::Pod> FakeVolumeWorld::Pod(const std::string& name,
                                                     const std::vector<Json>& volumes,
                                                     const Json& annotations) {
  Json mounts = Json::array();
  for (const Json& volume : volumes) {
    mounts.push_back(
        {{"name", volume["name"]}, {"mountPath", "/" + volume["name"].get<std::string>()}});
  }
  return std::make_shared<const api::Pod>(
      Json{{"apiVersion", "v1"},
           {"kind", "Pod"},
           {"metadata",
            {{"name", name},
             {"namespace", "default"},
             {"uid", "uid-" + name},
             {"annotations", annotations}}},
           {"spec",
            {{"nodeName", kNode},
             {"volumes", volumes},
             {"containers", {{{"name", "main"}, {"volumeMounts", mounts}}}}}}});
}

Json FakeVolumeWorld::ClaimVolume(const std::string& name, const std::string& claim) {
  return {{"name", name}, {"persistentVolumeClaim", {{"claimName", claim}}}};
}

base::Status FakeVolumeWorld::Start() {
  StopManager();
  volume::PluginList fixed;
  for (volume::VolumePlugin* plugin : plugins) {
    fixed.push_back(std::shared_ptr<volume::VolumePlugin>(std::shared_ptr<void>(), plugin));
  }
  registry = std::make_unique<volume::PluginRegistry>(
      std::move(fixed), std::move(probers),
      volume::PluginRegistry::Options{
          .on_state = [this](const std::string& plugin, const base::Status&) {
            manager->PluginChanged(plugin);
          }});
  manager = NewVolumeManager({.state_folder = folder + "/node/volumes",
                              .node_name = kNode,
                              .workers = 4,
                              .retry_start = std::chrono::milliseconds(5),
                              .retry_max = std::chrono::milliseconds(40),
                              .refresh_interval = std::chrono::hours(1),
                              .wait_event_after = std::chrono::milliseconds(30),
                              .health_interval = std::chrono::milliseconds(5),
                              .metrics = &metrics},
                             client, informers, *registry, *host, host->events());
  informers.Start();
  RETURN_IF_ERROR(informers.WaitForSync(std::chrono::seconds(10)));
  RETURN_IF_ERROR(registry->Init());
  return manager->Start([this](const std::string&) {
    MutexLock lock(mutex_);
    ++changes_;
    changed_.NotifyAll();
  });
}

void FakeVolumeWorld::StopManager() {
  if (manager == nullptr) return;
  shared->Unhang();
  scratch->Unhang();
  manager->Stop();
  manager.reset();
}

bool FakeVolumeWorld::WaitUntil(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (true) {
    uint64_t seen = 0;
    {
      MutexLock lock(mutex_);
      seen = changes_;
    }
    if (condition()) return true;
    MutexLock lock(mutex_);
    while (changes_ == seen) {
      if (!changed_.WaitUntil(mutex_, deadline)) return false;
    }
  }
}

bool FakeVolumeWorld::WaitReady(const std::string& uid) {
  const bool ready = WaitUntil([&] { return manager->State(uid).ready; });
  if (!ready) LOG_ERROR("not ready: {}", manager->State(uid).reason);
  return ready;
}

bool FakeVolumeWorld::WaitReason(const std::string& uid, const std::string& text) {
  const bool seen =
      WaitUntil([&] { return manager->State(uid).reason.find(text) != std::string::npos; });
  if (!seen) LOG_ERROR("the reason is: {}", manager->State(uid).reason);
  return seen;
}

bool FakeVolumeWorld::WaitReleased(const std::string& uid) {
  return WaitUntil([&] { return manager->HasReleased(uid); });
}

bool FakeVolumeWorld::WaitInUse(const std::vector<std::string>& names) {
  return client.WaitUntil([&] {
    const auto node = client.Peek<api::Node>("", kNode);
    return node.has_value() && node->volumes_in_use() == names;
  });
}

bool FakeVolumeWorld::WaitRecorded() const {
  const auto recorded = [this](const std::string& records) {
    for (const std::string& name : RecordFiles(records)) {
      const auto text = platform::ReadFile(RecordFolder(records) + "/" + name);
      if (text.ok() && text->find("\"mounted\"") != std::string::npos) return true;
    }
    return false;
  };
  return WaitOnDisk([&] { return recorded("pods") && recorded("devices"); });
}

bool FakeVolumeWorld::WaitForgotten() const {
  return WaitOnDisk([this] { return RecordFiles("devices").empty(); });
}

std::vector<std::string> FakeVolumeWorld::RecordFiles(const std::string& subfolder) const {
  auto names = platform::ListFolder(RecordFolder(subfolder)).value_or(std::vector<std::string>{});
  std::erase_if(names, [](const auto& name) { return !name.ends_with(platform::kRecordSuffix); });
  return names;
}

std::vector<std::string> FakeVolumeWorld::DamagedFiles() const {
  std::vector<std::string> damaged;
  for (const std::string folder : {"devices", "pods"}) {
    const auto names = platform::ListFolder(RecordFolder(folder));
    for (const std::string& name : *names) {
      if (name.find(".damaged-") != std::string::npos) damaged.push_back(name);
    }
  }
  return damaged;
}

}  // namespace berth::node
