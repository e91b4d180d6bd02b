// Chooses the version of a driver for each work. New work uses the current version. Tear-down uses
// the current one if its init succeeds, else the one that did the work, which has been held since
// then. Thread-safe.
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

  // The version for new work. NOT_FOUND: the driver was removed.
  base::StatusOr<DriverVersion> Current() const { return driver_->Current(); }
  bool removed() const;

  // Calls init of the current version. Does nothing for a driver that was removed.
  base::Status Init(DriverCalls& calls);
  // The answer of init; nullopt: it has not succeeded.
  std::optional<DriverCapabilities> capabilities() const;
  // Whether the driver attaches; for a driver that was removed `when_removed` decides. UNAVAILABLE:
  // init has not succeeded.
  base::StatusOr<bool> Attaches(const std::function<bool()>& when_removed) const;

  // The version that tears down what was mounted at `folder`; version `recorded` if no hold says
  // more.
  base::StatusOr<DriverVersion> ForTearDown(FlexFolder kind, std::string_view folder,
                                            std::string_view recorded) const;

  // Keeps a version for `folder`, which must exist below the kubelet folder. (For attachments,
  // `folder` only stands for one, and the version is held until Release.)
  base::Status HoldVersion(const DriverVersion& version, std::string_view folder);
  // Whether a version worked on it: then a mount there belongs to this node agent.
  base::StatusOr<bool> IsHeld(std::string_view folder) const;
  // Releases all versions that are held for it. A hold that cannot be released ends by itself once
  // the folder is gone.
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
