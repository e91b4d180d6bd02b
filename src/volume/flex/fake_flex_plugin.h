// A plugin that is nothing but its driver, for tests of what finds drivers.
#pragma once

#include <memory>
#include <string_view>
#include <utility>

#include "volume/flex/flex_driver.h"

namespace berth::volume {

class FakeFlexPlugin : public VolumePlugin {
 public:
  FakeFlexPlugin(std::shared_ptr<const FlexDriver> driver, std::shared_ptr<DriverVersions> versions)
      : driver_(std::move(driver)), versions_(std::move(versions)) {}

  static std::shared_ptr<VolumePlugin> Make(std::shared_ptr<const FlexDriver> driver,
                                            std::shared_ptr<DriverVersions> versions) {
    return std::make_shared<FakeFlexPlugin>(std::move(driver), std::move(versions));
  }

  const FlexDriver& driver() const { return *driver_; }
  DriverVersions& versions() const { return *versions_; }

  std::string_view name() const override { return driver_->name(); }
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

 private:
  const std::shared_ptr<const FlexDriver> driver_;
  const std::shared_ptr<DriverVersions> versions_;
};

}  // namespace berth::volume
