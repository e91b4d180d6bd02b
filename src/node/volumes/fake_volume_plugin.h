// A volume plugin that keeps its state in memory (and its mounts in a FakeMounter), records its
// calls, and fails or hangs when told to. It outlives volume managers, so that restarts can be
// tested.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "node/volumes/fake_volume_host.h"
#include "volume/volume_plugin.h"

namespace berth::node {

class FakeVolumePlugin : public volume::VolumePlugin {
 public:
  struct Options {
    std::string name = "kubernetes.io/csi";
    // "persistentVolumeClaim" volumes (of a CSI PV) are shared; any other type is of one pod.
    std::string source_type = "persistentVolumeClaim";
    bool needs_attach = false;
    bool refreshes = false;
    // MountDevice mounts nothing: the first pod's SetUp mounts the device, and the last one's
    // TearDown unmounts it, as CSI drivers that can defer the mount do.
    bool mounts_with_pods = false;
    // SetUp leaves the mount to a runtime handler that is offered.
    bool defers = false;
  };
  FakeVolumePlugin(FakeVolumeHost& host, Options options)
      : host_(host), options_(std::move(options)) {}

  // ---- for tests ----

  // "SetUp pod-uid/folder", "MountDevice name", ... in order.
  std::vector<std::string> Calls() const;
  size_t CallCount(const std::string& call) const;
  bool WaitForCalls(const std::string& call, size_t count);
  // The next call of `method` fails. With `takes_effect` it does its work, and only its answer is a
  // failure.
  void FailNext(const std::string& method, base::Status status, bool takes_effect = false);
  // Calls of `method` fail until the status is OK.
  void FailAll(const std::string& method, base::Status status);
  // Calls of `method` whose subject holds `subject` do not return until released.
  void Hang(const std::string& method, const std::string& subject);
  void Unhang();
  // Called in each call before it takes effect.
  void SetObserver(std::function<void(const std::string& call)> observer);
  // The mounted volumes: device names, and "pod-uid/folder".
  std::set<std::string> Mounted() const;
  api::Labels LastPublishContext() const;
  void Reboot();
  // Sets the result of FindOnNode; before that it finds nothing.
  void SetFound(Found found);
  // SetUp returns this folder as published, and not the folder at which it mounts.
  void SetHostFolder(std::string folder);
  // Sets the result of GetCondition for every volume; before that there is no condition.
  void SetCondition(volume::StatusOr<std::optional<Condition>> condition);

  // ---- VolumePlugin ----

  std::string_view name() const override { return options_.name; }
  bool Supports(const volume::VolumeSpec& spec) const override;
  volume::StatusOr<std::optional<std::string>> DeviceName(
      const volume::VolumeSpec& spec) const override;
  volume::StatusOr<bool> NeedsAttach(const volume::VolumeSpec& spec) const override;
  volume::StatusOr<base::Json> DeviceState(const volume::VolumeSpec& spec) const override;
  volume::StatusOr<base::Json> PodState(const api::Pod& pod,
                                        const volume::VolumeSpec& spec) const override;
  volume::Status MountDevice(const api::Pod& pod, const volume::VolumeSpec& spec,
                             const api::Labels& publish_context) override;
  volume::Status UnmountDevice(const volume::DeviceRecord& record) override;
  std::string DevicePath(const volume::DeviceRecord& record) const override;
  volume::StatusOr<Found> FindOnNode() const override;
  volume::StatusOr<Deferral> CanDefer(const api::Pod& pod, const volume::VolumeSpec& spec) override;
  volume::StatusOr<volume::Published> SetUp(const api::Pod& pod, const volume::VolumeSpec& spec,
                                            const api::Labels& publish_context) override;
  bool RefreshesContent() const override { return options_.refreshes; }
  volume::Status TearDown(const volume::PodVolumeRecord& record) override;
  volume::Status Expand(const volume::PodVolumeRecord& record, const volume::VolumeSpec& spec,
                        int64_t bytes) override;
  volume::StatusOr<Stats> GetStats(const volume::PodVolumeRecord& record) override;
  volume::StatusOr<std::optional<Condition>> GetCondition(
      const volume::PodVolumeRecord& record) override;

 private:
  struct Failure {
    base::Status status;
    bool takes_effect = false;
    bool once = true;
  };
  // Records the call, waits while it hangs, and does `effect` unless the call is to fail.
  base::Status Call(const std::string& method, const std::string& subject,
                    const std::function<base::Status()>& effect) ABSL_LOCKS_EXCLUDED(mutex_);
  base::Status MountOnce(const std::string& path);

  FakeVolumeHost& host_;
  const Options options_;
  mutable base::Mutex mutex_;
  base::CondVar changed_;
  std::vector<std::string> calls_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Failure> failures_ ABSL_GUARDED_BY(mutex_);
  std::string hang_method_ ABSL_GUARDED_BY(mutex_);
  std::string hang_subject_ ABSL_GUARDED_BY(mutex_);
  std::function<void(const std::string&)> observer_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> mounted_ ABSL_GUARDED_BY(mutex_);
  api::Labels publish_context_ ABSL_GUARDED_BY(mutex_);
  Found found_ ABSL_GUARDED_BY(mutex_);
  std::string host_folder_ ABSL_GUARDED_BY(mutex_);
  volume::StatusOr<std::optional<Condition>> condition_ ABSL_GUARDED_BY(mutex_) =
      std::optional<Condition>();
};

}  // namespace berth::node
