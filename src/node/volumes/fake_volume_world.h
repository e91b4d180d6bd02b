// The surroundings of the volume manager in its tests: an API, a node and plugins in memory, and a
// manager that can be stopped and made again over them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "kube/fake_client.h"
#include "kube/informers/informers.h"
#include "node/volumes/fake_volume_host.h"
#include "node/volumes/fake_volume_plugin.h"
#include "node/volumes/volume_manager.h"

namespace berth::node {

class FakeVolumeWorld {
 public:
  struct Options {
    bool needs_attach = false;
    bool refreshes = false;
    bool mounts_with_pods = false;  // as FakeVolumePlugin::Options
    bool defers = false;
  };
  explicit FakeVolumeWorld(Options options);
  ~FakeVolumeWorld();

  static constexpr const char* kNode = "node-a";
  static constexpr const char* kDriver = "demo.csi.example.com";
  static std::string Device(const std::string& claim) {
    return fmt::format("kubernetes.io/csi/{}^handle-{}", kDriver, claim);
  }

  // A claim in namespace "default", bound to volume "pv-NAME" of 1Gi.
  void AddBoundClaim(const std::string& name, const std::string& mode = "ReadWriteOnce");
  void AddUnboundClaim(const std::string& name);
  void AddVolume(const std::string& claim, const std::string& claim_uid,
                 const std::string& mode = "ReadWriteOnce");
  void Bind(const std::string& claim);
  void Attach(const std::string& claim);
  // A pod "default/NAME" with uid "uid-NAME"; each volume as in pod.spec.volumes[].
  static std::shared_ptr<const api::Pod> Pod(const std::string& name,
                                             const std::vector<base::Json>& volumes,
                                             const base::Json& annotations = base::Json::object());
  static base::Json ClaimVolume(const std::string& name, const std::string& claim);
  std::shared_ptr<const api::Pod> ClaimPod(const std::string& name, const std::string& claim) {
    return Pod(name, {ClaimVolume("data", claim)});
  }

  // Stops the manager if there is one, and makes and starts another one.
  base::Status Start();
  void StopManager();
  void Restart() {
    StopManager();
    if (const base::Status started = Start(); !started.ok()) std::abort();
  }

  bool WaitReady(const std::string& uid);
  // Waits until the pod's reason contains `text`.
  bool WaitReason(const std::string& uid, const std::string& text);
  bool WaitReleased(const std::string& uid);
  bool WaitInUse(const std::vector<std::string>& names);
  // Waits until a record of a device and a record of a pod's volume say "mounted". They are written
  // after the pod was notified.
  bool WaitRecorded() const;
  // Waits until no record of a device is left. The record is removed after the last pod was
  // released.
  bool WaitForgotten() const;
  // The records of a folder without those that were set aside, and the latter of all folders.
  std::vector<std::string> RecordFiles(const std::string& subfolder) const;
  std::vector<std::string> DamagedFiles() const;
  std::string RecordFolder(const std::string& subfolder) const {
    return fmt::format("{}/node/volumes/{}", folder, subfolder);
  }

  std::string folder;
  base::Metrics metrics;
  kube::FakeClient client;
  kube::Informers informers{client};
  std::unique_ptr<FakeVolumeHost> host;
  std::unique_ptr<FakeVolumePlugin> shared;
  std::unique_ptr<FakeVolumePlugin> scratch;  // emptyDir
  std::vector<volume::VolumePlugin*>
      plugins;  // of the manager: these two, unless a test has others
  std::vector<std::unique_ptr<volume::PluginProber>> probers;  // of the next manager
  std::unique_ptr<volume::PluginRegistry> registry;
  std::unique_ptr<VolumeManager> manager;

 private:
  bool WaitUntil(const std::function<bool()>& condition);

  base::Mutex mutex_;
  base::CondVar changed_;
  uint64_t changes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace berth::node
