// A Flexvolume driver as a volume plugin.
//
//   attach=true    MountDevice: waitforattach, mountdevice (flex_devices.h); SetUp: mount
//   attach=false   SetUp: mount alone
//
// The answer of init tells which. If a driver does not support a call, the plugin does what
// Kubernetes does in its place. All steps are idempotent, and a mounted volume is not mounted
// again. A driver that was removed still tears down the volumes that it set up; for new volumes the
// error says that it was removed.
//
// The driver's executable may be replaced by one with another value of `attach`. That one has a
// plugin of its own, which finds on the node the mounts of the earlier one and undoes them.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "volume/flex/driver_call.h"
#include "volume/flex/flex_devices.h"
#include "volume/flex/flex_driver.h"
#include "volume/flex/flex_mount_points.h"
#include "volume/flex/flex_versions.h"
#include "volume/host.h"
#include "volume/volume_plugin.h"

namespace berth::volume {

class FlexPlugin : public VolumePlugin {
 public:
  // Borrows the host.
  FlexPlugin(Host& host, std::shared_ptr<const FlexDriver> driver,
             std::shared_ptr<DriverVersions> versions)
      : FlexPlugin(host, std::move(driver), std::move(versions), DriverCalls::Deadlines()) {}
  FlexPlugin(Host& host, std::shared_ptr<const FlexDriver> driver,
             std::shared_ptr<DriverVersions> versions, const DriverCalls::Deadlines& deadlines);

  // Calls init. Does nothing for a driver that was removed.
  Status Init() override { return versions_.Init(calls_); }

  std::string_view name() const override { return versions_.driver(); }
  bool Supports(const VolumeSpec& spec) const override;
  StatusOr<std::optional<std::string>> DeviceName(const VolumeSpec& spec) const override;
  StatusOr<bool> NeedsAttach(const VolumeSpec& spec) const override;
  StatusOr<Json> DeviceState(const VolumeSpec& spec) const override;
  StatusOr<Json> PodState(const api::Pod& pod, const VolumeSpec& spec) const override;

  // `publish_context` holds the device that attach returned, as "devicePath".
  Status MountDevice(const api::Pod& pod, const VolumeSpec& spec,
                     const api::Labels& publish_context) override;
  Status UnmountDevice(const DeviceRecord& record) override;
  std::string DevicePath(const DeviceRecord& record) const override;
  Status ForgetDevice(const DeviceRecord& record) override;
  StatusOr<Published> SetUp(const api::Pod& pod, const VolumeSpec& spec,
                            const api::Labels& publish_context) override;
  Status TearDown(const PodVolumeRecord& record) override;
  // Calls expandfs, or grows the file system on the device. UNIMPLEMENTED: the driver needs
  // neither.
  Status Expand(const PodVolumeRecord& record, const VolumeSpec& spec, int64_t bytes) override;
  StatusOr<Found> FindOnNode() const override;
  // UNIMPLEMENTED unless the driver says supportsMetrics.
  StatusOr<Stats> GetStats(const PodVolumeRecord& record) override;
  void CancelCalls() override { calls_.CancelCalls(); }

  // From the last init; nullopt: it has not succeeded.
  std::optional<DriverCapabilities> capabilities() const { return versions_.capabilities(); }

 private:
  StatusOr<bool> IsAttachable(const VolumeSpec& spec) const;
  platform::TargetPath Folder(const PodVolumeRecord& record) const;
  Json StateOf(const std::string& volume) const;
  Status MountForPod(const DriverVersion& version, const platform::TargetPath& folder,
                     const api::Pod& pod, const VolumeSpec& spec);
  Status BindDevice(const platform::TargetPath& folder, const VolumeSpec& spec);
  Status UnmountForPod(const DriverVersion& version, const platform::TargetPath& folder);
  // CANCELLED: the process ends. Any other failure is reported, and the pod goes on.
  Status ApplyFsGroup(const api::Pod& pod, const VolumeSpec& spec,
                      const platform::TargetPath& folder);
  Status GrowPlainly(const std::string& device, const platform::MountPoint& folder);

  Host& host_;
  FlexVersions versions_;
  DriverCalls calls_;
  FlexDevices devices_;
  FlexMountPoints pod_volumes_;
};

}  // namespace berth::volume
