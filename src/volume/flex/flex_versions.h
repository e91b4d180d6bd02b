// Which version of a driver does what: new work the current one, tear-down the current one if it
// starts, else the one that did the work, which is held since then. Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/mutex.h"
#include "base/status.h"
#include "volume/flex/driver_call.h"
#include "volume/flex/driver_reply.h"
#include "volume/flex/driver_version.h"
#include "volume/flex/flex_driver.h"
#include "volume/paths.h"

namespace berth::volume {

// What is mounted at a folder: a device, which only a version that attaches knows how to unmount,
// or a pod's volume.
enum class FlexFolder { kDevice, kPodVolume };

class FlexVersions {
 public:
  // Borrows the paths.
  FlexVersions(const Paths& paths, std::shared_ptr<const FlexDriver> driver,
               std::shared_ptr<DriverVersions> versions);

  std::string_view driver() const { return driver_->name(); }

  // For new work. NOT_FOUND: the driver was removed.
  base::StatusOr<DriverVersion> Current() const { return driver_->Current(); }
  bool removed() const;

  // Calls init of the current version. Nothing for a driver that was removed.
  base::Status Init(DriverCalls& calls);
  // What init said; nullopt: it has not succeeded.
  std::optional<DriverCapabilities> capabilities() const;
  // Whether the driver attaches; of one that was removed `when_removed` tells. UNAVAILABLE: init
  // has not succeeded.
  base::StatusOr<bool> Attaches(const std::function<bool()>& when_removed) const;

  // For what was mounted at `folder`, by version `recorded` if no hold says more.
  base::StatusOr<DriverVersion> ForTearDown(FlexFolder kind, std::string_view folder,
                                            std::string_view recorded) const;

  // `folder`, below the kubelet folder, exists. (Where a driver attaches it stands for an
  // attachment, and a version is held until Release.)
  base::Status Hold(const DriverVersion& version, std::string_view folder);
  // Whether a version worked on it: a mount there is then this node agent's.
  base::StatusOr<bool> IsHeld(std::string_view folder) const;
  // All that is held for it. What fails ends by itself once the folder is gone.
  void Release(std::string_view folder);

 private:
  std::string UserOf(std::string_view folder) const;

  const Paths& paths_;
  const std::shared_ptr<const FlexDriver> driver_;
  const std::shared_ptr<DriverVersions> versions_;
  mutable base::Mutex mutex_;
  std::optional<DriverCapabilities> capabilities_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace berth::volume
