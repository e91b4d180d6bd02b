// A volume plugin that has a name and does nothing: the base of doubles in tests that are not about
// mounting.
#pragma once

#include <optional>
#include <string>

#include "volume/volume_plugin.h"

namespace berth::volume {

class IdlePlugin : public VolumePlugin {
 public:
  bool Supports(const VolumeSpec&) const override { return false; }
  StatusOr<std::optional<std::string>> DeviceName(const VolumeSpec&) const override {
    return std::optional<std::string>();
  }
  StatusOr<bool> NeedsAttach(const VolumeSpec&) const override { return false; }
  StatusOr<Json> DeviceState(const VolumeSpec&) const override { return Json(); }
  StatusOr<Json> PodState(const api::Pod&, const VolumeSpec&) const override { return Json(); }
  Status MountDevice(const api::Pod&, const VolumeSpec&, const api::Labels&) override {
    return base::OkStatus();
  }
  Status UnmountDevice(const DeviceRecord&) override { return base::OkStatus(); }
  StatusOr<Published> SetUp(const api::Pod&, const VolumeSpec&, const api::Labels&) override {
    return Published{};
  }
  Status TearDown(const PodVolumeRecord&) override { return base::OkStatus(); }
  Status Expand(const PodVolumeRecord&, const VolumeSpec&, int64_t) override {
    return base::OkStatus();
  }
  StatusOr<Stats> GetStats(const PodVolumeRecord&) override { return Stats{}; }
};

}  // namespace berth::volume
