// Finds Flexvolume drivers: a driver folder that is watched, and the copies that are run.
//
//   changes ──▶ the window's end (a second) ──▶ the flag, and OnNews ──▶ Probe scans, once
//
//                    ┌── its executable is another ──▶ another plugin, of a new version
//   a driver's folder┼── another file changed ───────▶ the same plugin, of a new version
//                    ├── it is being written to ─────▶ the same plugin; Current says so till the
//                    │                                 next look, which comes by itself
//                    └── it is gone, or no driver ───▶ no plugin; while a version is held, the
//                                                      last one, whose Current says why
//
// An executable is another if its device, inode, size or time of change is, or its content. One
// that fails its init is not replaced by an older version. What is left out is told once, with its
// reason. Source: the design of dynamic Flexvolume discovery.
//
// Each process that uses drivers has its own prober and its own store. Thread-safe after Init.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "base/mutex.h"
#include "base/status.h"
#include "platform/files/watch_folder.h"
#include "volume/flex/driver_store.h"
#include "volume/flex/flex_driver.h"
#include "volume/plugin_prober.h"

namespace berth::volume {

class FlexProber : public PluginProber {
 public:
  struct Options {
    // Made when it is not there.
    std::string drivers = "/usr/libexec/kubernetes/kubelet-plugins/volume/exec";
    DriverStore::Options store;
    MakeFlexPlugin make;
    // A folder is left out, with the reason; OK: it is no more. An empty name: the driver folder.
    // Two pass as a rule: NOT_FOUND, no executable is in it yet; UNAVAILABLE, it is being written
    // to. On the thread of whoever calls Probe, which may hold
    // locks: it returns soon and asks neither the prober nor the registry.
    std::function<void(const std::string& folder, const base::Status& why)> on_left_out = nullptr;
    // Changes may have been missed, and the folder is read anew (platform::WatchOptions).
    std::function<void(const base::Status& why)> on_trouble = nullptr;
    std::chrono::milliseconds window{1000};
    // After a copy or a scan that failed, for want of space or the like: nothing announces that
    // there is some.
    std::chrono::milliseconds retry{30000};
    DriverLimits limits;
  };

  explicit FlexProber(Options options);
  ~FlexProber() override;

  void OnNews(std::function<void()> tell) override { tell_ = std::move(tell); }
  // A driver folder that cannot be made or read is no failure: it is told, and tried again.
  base::Status Init() override;
  base::StatusOr<std::optional<PluginList>> Probe() override;
  std::shared_ptr<VolumePlugin> Absent(std::string_view name) const override;
  std::string WhyNone(const VolumeSpec& spec) const override;
  base::Status StateOf(std::string_view name) const override;

  // What was left out at the last scan, as on_left_out tells it.
  std::map<std::string, base::Status> LeftOut() const;

 private:
  class Driver;
  struct Known {
    std::shared_ptr<Driver> driver;
    std::shared_ptr<VolumePlugin> plugin;
    std::optional<DriverStore::Taken> taken;  // nothing: it was removed, or is left out
    bool settled = false;                     // a change since then would show in the files' times
  };

  base::Status Scan() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes the driver as it now is; why not.
  base::Status Update(int drivers, const DriverFolder& found) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // For a driver of which no version is current.
  void Retire(const std::string& driver, const base::Status& why)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void MakePlugin(Known& known, const std::string& driver, base::StatusOr<DriverVersion> current)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  base::Status Unusable(const std::string& folder, const base::Status& why) const;
  base::Status Missing(const std::string& driver) const;
  // What is new against the last scan.
  void TellLeftOut(const std::map<std::string, base::Status>& before)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  std::function<void()> tell_;
  std::atomic<bool> news_ = true;
  std::atomic<std::thread::id> scanning_ = {};  // the thread of the scan that runs
  std::shared_ptr<DriverStore> store_;
  mutable base::Mutex mutex_;
  std::map<std::string, Known> known_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, base::Status> left_out_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<platform::FolderWatch> watch_;  // the last: its thread uses the others
};

}  // namespace berth::volume
