// A plugin that only holds its driver, for tests of the code that finds drivers.
#pragma once

#include <memory>
#include <string_view>
#include <utility>

#include "volume/fake_idle_plugin.h"
#include "volume/flex/flex_driver.h"

namespace berth::volume {

class FakeFlexPlugin : public IdlePlugin {
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

 private:
  const std::shared_ptr<const FlexDriver> driver_;
  const std::shared_ptr<DriverVersions> versions_;
};

}  // namespace berth::volume
