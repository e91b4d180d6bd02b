// Finds Flexvolume drivers. It watches a driver folder, and runs drivers only from copies.
//
//   changes ──▶ the window's end (a second) ──▶ the flag, SetOnChange ──▶ ListPlugins scans, once
//
//                    ┌── its executable is another ──▶ another plugin, of a new version
//   a driver's folder┼── another file changed ───────▶ the same plugin, of a new version
//                    ├── it is being written to ─────▶ the same plugin; Current says so till the
//                    │                                 next look, which comes by itself
//                    └── it is gone, or no driver ───▶ no plugin; while a version is held, the
//                                                      last one, whose Current says why
//
// An executable is another one if its device, inode, size, time of change or content differs. A
// driver that fails its init is not replaced by an older version. A folder that is left out is
// reported once, with the reason. Source: the design of dynamic Flexvolume discovery.
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
    // The driver folder. It is made if it does not exist.
    std::string drivers = "/usr/libexec/kubernetes/kubelet-plugins/volume/exec";
    DriverStore::Options store;
    MakeFlexPlugin make;
    // Reports that a folder is left out, with the reason; OK: it no longer is. An empty name stands
    // for the driver folder itself. Two reasons usually end by themselves: NOT_FOUND, there is no
    // executable yet; UNAVAILABLE, it is being written. It is called on the thread that calls
    // ListPlugins. That thread may hold locks, so the function must return soon, and must call
    // neither the prober nor the registry.
    std::function<void(const std::string& folder, const base::Status& why)> on_left_out = nullptr;
    // Reports that changes may have been missed; the folder is read again (platform::WatchOptions).
    std::function<void(const base::Status& why)> on_trouble = nullptr;
    std::chrono::milliseconds window{1000};
    // The pause after a copy or scan that failed, for example because the disk is full. No event
    // tells that there is space again.
    std::chrono::milliseconds retry{30000};
    DriverLimits limits;
  };

  explicit FlexProber(Options options);
  ~FlexProber() override;

  void SetOnChange(std::function<void()> on_change) override { on_change_ = std::move(on_change); }
  // A driver folder that cannot be made or read is not a failure: it is reported, and tried again.
  base::Status Init() override;
  base::StatusOr<std::optional<PluginList>> ListPlugins() override;
  std::shared_ptr<VolumePlugin> FindAbsent(std::string_view name) const override;
  std::string ExplainMissing(const VolumeSpec& spec) const override;
  base::Status GetState(std::string_view name) const override;

  // The folders that the last scan left out, and why, as on_left_out reports them.
  std::map<std::string, base::Status> ListLeftOut() const;

 private:
  class Driver;
  struct Known {
    std::shared_ptr<Driver> driver;
    std::shared_ptr<VolumePlugin> plugin;
    std::optional<DriverStore::Taken> taken;  // nullopt: it was removed, or is left out
    bool settled = false;                     // a later change would show in the files' times
  };

  base::Status ScanFolder() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Copies the driver as it is now, if it changed. An error says why it cannot be used now.
  base::Status UpdateDriver(int drivers, const DriverFolder& found)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Notes that a driver has no current version, and why. Its plugin stays only while a version is
  // held.
  void RetireDriver(const std::string& driver, const base::Status& why)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void MakePlugin(Known& known, const std::string& driver, base::StatusOr<DriverVersion> current)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  base::Status UnusableError(const std::string& folder, const base::Status& why) const;
  base::Status MissingError(const std::string& driver) const;
  // Reports what differs from the last scan.
  void ReportLeftOut(const std::map<std::string, base::Status>& before)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  std::function<void()> on_change_;
  std::atomic<bool> changed_ = true;
  std::atomic<std::thread::id> scanning_ = {};  // the thread of the scan that runs
  std::shared_ptr<DriverStore> store_;
  mutable base::Mutex mutex_;
  std::map<std::string, Known> known_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, base::Status> left_out_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<platform::FolderWatch> watch_;  // the last: its thread uses the others
};

}  // namespace berth::volume
