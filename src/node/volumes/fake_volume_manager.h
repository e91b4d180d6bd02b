// A volume manager double: volumes are set up and torn down when a test says so. Thread-safe.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "node/volumes/volume_manager.h"

namespace berth::node {

class FakeVolumeManager : public VolumeManager {
 public:
  // At first every pod's volumes are ready as soon as they are wanted, and released at once.
  void SetReady(bool ready, std::string reason = "");
  // The volumes are not ready, but `begun` is true.
  void SetBegun();
  // The volumes are not ready, because the node has no room for one of them.
  void SetNoRoom(std::string reason);
  void SetReleases(bool releases);
  void Publish(const std::string& volume, volume::Published published);
  // Adds `volume` to the deferred volumes of every pod.
  void Defer(DeferredVolume volume);
  // The sandbox that NoteSandbox named last for the pod; "": none.
  std::string placed_in(const std::string& uid) const;
  void AddKnownPod(const std::string& uid);
  bool wanted(const std::string& uid) const;
  bool released(const std::string& uid) const;
  bool WaitReleased(const std::string& uid) const;

  base::Status Start(std::function<void(const std::string& pod_uid)> on_change) override;
  void Stop() override {}
  void WantVolumes(std::shared_ptr<const api::Pod> pod) override;
  void ReleaseVolumes(const std::string& pod_uid) override;
  bool HasReleased(const std::string& pod_uid) const override;
  PodVolumes State(const std::string& pod_uid) const override;
  std::vector<std::string> KnownPods() const override;
  std::vector<DeferredVolume> Deferred(const std::string& pod_uid) const override;
  void NoteSandbox(const api::PodUid& pod, const rpc::SandboxId& sandbox) override;

 private:
  void ReportChanges();

  mutable base::Mutex mutex_;
  mutable base::CondVar changed_;
  std::function<void(const std::string&)> on_change_ ABSL_GUARDED_BY(mutex_);
  bool ready_ ABSL_GUARDED_BY(mutex_) = true;
  bool begun_ ABSL_GUARDED_BY(mutex_) = false;
  bool no_room_ ABSL_GUARDED_BY(mutex_) = false;
  bool releases_ ABSL_GUARDED_BY(mutex_) = true;
  std::string reason_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, volume::Published> published_ ABSL_GUARDED_BY(mutex_);
  std::vector<DeferredVolume> deferred_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::string> placed_in_ ABSL_GUARDED_BY(mutex_);  // by pod
  std::set<std::string> wanted_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> releasing_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace berth::node
