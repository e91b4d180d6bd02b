// A plugin registry with one prober, whose drivers a test lists.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "volume/fake_prober.h"
#include "volume/plugin_registry.h"

namespace berth::volume {

class FakeRegistry {
 public:
  // `on_change`: a driver is ready, or failed, or is gone.
  explicit FakeRegistry(std::function<void(const std::string& driver)> on_change) {
    auto prober = std::make_unique<FakeProber>();
    prober_ = prober.get();
    std::vector<std::unique_ptr<PluginProber>> probers;
    probers.push_back(std::move(prober));
    registry_ = std::make_unique<PluginRegistry>(
        PluginList(), std::move(probers),
        PluginRegistry::Options{
            .on_state = [tell = std::move(on_change)](const std::string& driver,
                                                      const base::Status&) { tell(driver); }});
  }

  PluginRegistry& operator*() { return *registry_; }
  PluginRegistry* operator->() { return registry_.get(); }
  FakeProber& prober() { return *prober_; }

 private:
  FakeProber* prober_ = nullptr;  // the registry's
  std::unique_ptr<PluginRegistry> registry_;
};

}  // namespace berth::volume
