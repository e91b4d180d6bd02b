// A Flexvolume driver as a volume plugin of the control plane, which attaches and mounts nothing.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "volume/flex/flex_attach.h"
#include "volume/volume_plugin.h"

namespace berth::volume {

class FlexAttachPlugin : public VolumePlugin {
 public:
  // Borrows the exec and the paths.
  FlexAttachPlugin(platform::Exec& exec, const Paths& paths,
                   const std::shared_ptr<const FlexDriver>& driver,
                   std::shared_ptr<DriverVersions> versions)
      : name_(driver->name()), attach_(exec, paths, driver, std::move(versions)) {}

  Status Init() override { return attach_.Init(); }
  std::string_view name() const override { return name_; }
  bool Supports(const VolumeSpec& spec) const override;
  StatusOr<std::optional<std::string>> DeviceName(const VolumeSpec& spec) const override;
  StatusOr<bool> NeedsAttach(const VolumeSpec&) const override { return attach_.Attaches(); }
  VolumeAttacher* attacher() override { return &attach_; }
  void CancelCalls() override { attach_.CancelCalls(); }

  // The calls for nodes. They are UNIMPLEMENTED.
  StatusOr<Json> DeviceState(const VolumeSpec& spec) const override;
  StatusOr<Json> PodState(const api::Pod& pod, const VolumeSpec& spec) const override;
  Status MountDevice(const api::Pod& pod, const VolumeSpec& spec,
                     const api::Labels& publish_context) override;
  Status UnmountDevice(const DeviceRecord& record) override;
  StatusOr<Published> SetUp(const api::Pod& pod, const VolumeSpec& spec,
                            const api::Labels& publish_context) override;
  Status TearDown(const PodVolumeRecord& record) override;
  Status Expand(const PodVolumeRecord& record, const VolumeSpec& spec, int64_t bytes) override;
  StatusOr<Stats> GetStats(const PodVolumeRecord& record) override;

 private:
  const std::string name_;
  FlexAttach attach_;
};

}  // namespace berth::volume
