// A FakeHost whose mounts and utilities are real, for tests that run as root.
#pragma once

#include <memory>
#include <string>

#include "volume/fake_host.h"

namespace berth::volume {

class RealHost : public FakeHost {
 public:
  explicit RealHost(const std::string& kubelet_folder) : FakeHost(kubelet_folder) {}

  platform::Mounter& mounter() override { return *mounter_; }
  platform::Exec& exec(std::string_view plugin) override {
    asked_for_ = plugin;
    return *exec_;
  }
  HelperMounts& helper_mounts() override { return *helper_mounts_; }
  // The plugin that was last asked for its utilities.
  const std::string& asked_for() const { return asked_for_; }

 private:
  const std::unique_ptr<platform::Mounter> mounter_ = platform::NewMounter();
  const std::unique_ptr<platform::Exec> exec_ = platform::NewHostExec();
  const std::unique_ptr<HelperMounts> helper_mounts_ = NewHostHelperMounts(*exec_, *mounter_);
  std::string asked_for_;
};

}  // namespace berth::volume
