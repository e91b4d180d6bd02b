// One version of a Flexvolume driver, and who still needs it.
//
// A driver is never run from the driver folder, because an installer may write there. It runs from
// a copy that nobody changes, made when the folder was found complete. So nothing that happens
// there can affect a running call, or the unmount of a volume that an earlier version mounted.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace berth::volume {

struct DriverVersion {
  std::string driver;      // "vendor/driver", or "driver"
  std::string executable;  // absolute path of the copy
  std::string id;          // lower-case hex; names the version in records
  // Running calls keep it: the copy exists at least as long as this object, or a copy of it, lives.
  std::shared_ptr<const void> pin = nullptr;
};

// The copies. Thread-safe.
class DriverVersions {
 public:
  virtual ~DriverVersions() = default;

  // NOT_FOUND: that version was never copied, or nobody held it and it was removed.
  virtual base::StatusOr<DriverVersion> Kept(std::string_view driver,
                                             std::string_view id) const = 0;

  // The version that `user` holds, the one held last if there are several; nullopt: none.
  virtual base::StatusOr<std::optional<DriverVersion>> HeldBy(std::string_view driver,
                                                              std::string_view user) const = 0;

  // Keeps a version until it is released, also over restarts. `user` names a pod's volume or a
  // device, as a path below the kubelet folder ("pods/UID/volumes/vendor~driver/NAME"): when that
  // path does not exist any more, the hold ends by itself. Idempotent.
  virtual base::Status HoldVersion(const DriverVersion& version, std::string_view user) = 0;
  virtual base::Status Release(const DriverVersion& version, std::string_view user) = 0;
};

}  // namespace berth::volume
