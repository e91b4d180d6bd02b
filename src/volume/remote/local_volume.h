// The plugin for local: a folder or a block device of one node, as a PersistentVolume.
//
//   plugins/kubernetes.io/local-volume/mounts/<pv>/          the file system on a device, which is
//                                                            made if it is blank; shared by pods
//   pods/<uid>/volumes/kubernetes.io~local-volume/<pv>/      bind of that, or of the folder
//   plugins/…/volumeDevices/<pv>/<pod uid>                   volumeMode Block: bind of the device
//   pods/<uid>/volumeDevices/kubernetes.io~local-volume/<pv> symlink to it
//
// A device is recognised by its number. If something else is mounted at the volume's path, the
// volume is refused. mkfs, fsck and similar tools run through Host::exec; the agent makes the
// mounts itself.
#pragma once

#include <optional>
#include <string>

#include "volume/host.h"
#include "volume/remote/pod_binds.h"
#include "volume/volume_plugin.h"

namespace berth::volume {

class LocalVolumePlugin : public VolumePlugin {
 public:
  explicit LocalVolumePlugin(Host& host) : host_(host) {}

  std::string_view name() const override { return "kubernetes.io/local-volume"; }
  bool Supports(const VolumeSpec& spec) const override;
  StatusOr<std::optional<std::string>> DeviceName(const VolumeSpec& spec) const override;
  StatusOr<bool> NeedsAttach(const VolumeSpec& /*spec*/) const override { return false; }
  StatusOr<Json> DeviceState(const VolumeSpec& spec) const override;  // {"block": ...}
  StatusOr<Json> PodState(const api::Pod& pod, const VolumeSpec& spec) const override;

  // Makes the file system if the device is blank, checks and mounts it; does nothing for a folder.
  // FAILED_PRECONDITION: the device holds something else, or is mounted elsewhere on the host.
  Status MountDevice(const api::Pod& pod, const VolumeSpec& spec,
                     const api::Labels& publish_context) override;
  Status UnmountDevice(const DeviceRecord& record) override;
  std::string DevicePath(const DeviceRecord& record) const override;

  // fsGroup is applied before the first pod's bind is made, so that an existing bind proves that it
  // was applied.
  StatusOr<Published> SetUp(const api::Pod& pod, const VolumeSpec& spec,
                            const api::Labels& publish_context) override;
  Status TearDown(const PodVolumeRecord& record) override;

  // Grows the file system to its device. FAILED_PRECONDITION: the device is smaller than `bytes`.
  // UNIMPLEMENTED: the volume is a folder or a raw device.
  Status Expand(const PodVolumeRecord& record, const VolumeSpec& spec, int64_t bytes) override;
  StatusOr<Found> FindOnNode() const override;
  StatusOr<Stats> GetStats(const PodVolumeRecord& record) override;

 private:
  // The target of the volume's path.
  struct Source {
    std::string path;
    std::optional<dev_t> device;  // a block device; nullopt: a folder
  };
  StatusOr<Source> FindSource(const VolumeSpec& spec) const;
  // Whether pods still use the volume, so that its device is mounted. FAILED_PRECONDITION: the
  // device is mounted outside the kubelet folder, or as another volume.
  StatusOr<bool> IsUsedByPods(const Source& source, const std::string& pv) const;
  // The mount at `target` in `table`, which shows the source's device. FAILED_PRECONDITION: the
  // device is not mounted there.
  StatusOr<const platform::MountEntry*> FindDeviceMount(
      const std::vector<platform::MountEntry>& table, const Source& source,
      const std::string& target) const;

  // Whether another pod uses the volume already.
  StatusOr<bool> IsUsedByOthers(const api::VolumeName& pv, const api::PodUid& pod) const;
  Host& host_;
  PodBinds binds_{host_, "kubernetes.io/local-volume", "local"};
};

}  // namespace berth::volume
