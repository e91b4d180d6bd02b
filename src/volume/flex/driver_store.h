// Keeps copies of Flexvolume drivers on disk, because drivers run only from copies.
//
//   STORE/vendor~driver/ID/driver       a version: the driver's folder as it was
//   STORE/vendor~driver/ID/.held/HASH   a hold: its version, order and user, as JSON; a user's last
//                                       has the highest order
//   STORE/.new/                         the copy that is being made
//   STORE/.gone/                        the copies that are being removed
//
// The process that owns STORE locks it.
//
//   TakeCopy ──▶ copied in .new ──▶ renamed to ID ──▶ pinned (DriverVersion::pin) or held ──▶ .gone
//
// ID is a digest of names, permissions and contents. A driver that is installed again unchanged is
// the same version, so a DaemonSet that installs at each start makes no second copy, and a version
// that volumes hold is recognised when it is the current one.
//
// After the process has ended, a version without a hold is not needed, and the next start removes
// it. So a version is synced to disk only when its first hold is written, and a start with a
// thousand drivers does not wait for the disk. A hold is durable, and its version is made durable
// first.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "volume/flex/driver_folder.h"
#include "volume/flex/driver_version.h"

namespace berth::volume {

// Thread-safe.
class DriverStore : public DriverVersions {
 public:
  struct Options {
    std::string folder;  // STORE, made with its parents
    // The folder below which the users of holds have their paths: the kubelet folder. Empty: only
    // Release ends a hold.
    std::string users;
  };

  // Opens the store. Removes incomplete copies, versions without a hold, and the holds of users
  // that do not exist any more. FAILED_PRECONDITION: another process has the store.
  static base::StatusOr<std::shared_ptr<DriverStore>> Open(Options options);

  struct Taken {
    DriverVersion version;
    DriverFolder found;             // the folder that was copied
    std::string executable_digest;  // of its content
  };
  // Copies `folder`, in the driver folder that OpenDrivers opened, as it is now. UNAVAILABLE: it is
  // being written to; else as ReadDriver.
  base::StatusOr<Taken> TakeCopy(int drivers, const std::string& folder,
                                 const DriverLimits& limits);

  // Returns the drivers of which a version is held.
  std::set<std::string> ListHeldDrivers() const;
  bool IsHeld(std::string_view driver) const;

  // The users that hold a version of the driver, in order; a user whose hold could not be read is
  // "?".
  std::vector<std::string> UsersOf(std::string_view driver) const;

  // Removes the versions that are neither held nor pinned. A failure is logged.
  void RemoveUnused();

  // Sets the function to call when the last hold or the last pin of a version has ended, so that
  // RemoveUnused may find it. The function is called on the thread that ends the hold or the pin,
  // must return soon and must not call the store.
  void SetOnReleased(std::function<void()> on_released);

  base::StatusOr<DriverVersion> FindVersion(std::string_view driver,
                                            const DriverVersionId& id) const override;
  base::StatusOr<std::optional<DriverVersion>> FindHeldVersion(
      std::string_view driver, std::string_view user) const override;
  base::Status HoldVersion(const DriverVersion& version, std::string_view user) override;
  base::Status ReleaseVersion(const DriverVersion& version, std::string_view user) override;

 private:
  // Calls the function of SetOnReleased. Pins share it, because a pin may outlive the store.
  class Notifier {
   public:
    void Notify() {
      base::MutexLock lock(mutex_);
      if (on_released_) on_released_();
    }
    void SetOnReleased(std::function<void()> on_released) {
      base::MutexLock lock(mutex_);
      on_released_ = std::move(on_released);
    }

   private:
    base::Mutex mutex_;  // taken after all other locks
    std::function<void()> on_released_ ABSL_GUARDED_BY(mutex_);
  };
  struct Claim {
    std::string user;  // empty: it could not be read
    uint64_t order = 0;
    bool written = false;  // true: certainly on disk; false: perhaps
  };
  struct Version {
    std::weak_ptr<const void> pin;
    std::map<std::string, Claim> holds;  // by the file in .held
    bool synced = false;
    bool needed() const { return !holds.empty() || !pin.expired(); }
  };
  using Key = std::pair<std::string, std::string>;  // driver, id

  DriverStore(Options options, base::UniqueFd lock)
      : options_(std::move(options)), lock_(std::move(lock)) {}

  base::Status LoadVersions();
  base::Status LoadVersion(const Key& key);
  bool Exists(const std::string& user) const;
  std::string FolderOf(const Key& key) const;
  std::string HoldsOf(const Key& key) const { return FolderOf(key) + "/.held"; }
  DriverVersion PinVersion(const Key& key, Version& version) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  base::Status SyncVersion(const Key& key, Version& version) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The version of a driver that a user's file holds last; end(): none.
  std::map<Key, Version>::iterator FindLastHeld(std::string_view driver,
                                                const std::string& file) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Makes the copy in the folder `fresh`, which may be left there.
  base::StatusOr<Taken> MakeCopy(const std::string& fresh, int drivers, const std::string& folder,
                                 const DriverLimits& limits);
  static base::Status PlaceCopy(const std::string& fresh, const std::string& path);
  base::Status RemoveVersions(const std::vector<Key>& keys);

  const Options options_;
  const base::UniqueFd lock_;
  base::Mutex taking_;  // held while a copy is made or versions are removed; taken before mutex_
  mutable base::Mutex mutex_;
  mutable std::map<Key, Version> versions_ ABSL_GUARDED_BY(mutex_);
  const std::shared_ptr<Notifier> notifier_ = std::make_shared<Notifier>();
};

}  // namespace berth::volume
