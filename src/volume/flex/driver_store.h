// The copies of Flexvolume drivers that are run, on disk.
//
//   STORE/vendor~driver/ID/driver       a version: the driver's folder as it was
//   STORE/vendor~driver/ID/.held/HASH   a hold: "ORDER USER"; a user's last has the highest order
//   STORE/.new/                         the copy that is being made
//   STORE/.gone/                        what is being removed
//
// The process that owns STORE locks it.
//
//   TakeCopy ──▶ copied in .new ──▶ renamed to ID ──▶ pinned (DriverVersion::pin) or held ──▶ .gone
//
// ID is a digest of names, permissions and contents. A driver that is installed again unchanged is
// the same version, so a DaemonSet that installs at each start makes no second copy, and a version
// that volumes hold is recognised when it is the current one.
//
// A version that nobody holds is worth nothing after the process has ended, and the next start
// removes it. So a version is synced to disk only when its first hold is written, and a start with
// a thousand drivers waits for no disk. A hold is durable, and the version that it holds is durable
// before it.
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

  // Removes what a crash left incomplete, versions that nobody holds, and the holds of users that
  // do not exist any more. FAILED_PRECONDITION: another process has the store.
  static base::StatusOr<std::shared_ptr<DriverStore>> Open(Options options);

  struct Taken {
    DriverVersion version;
    DriverFolder found;             // what it is a copy of
    std::string executable_digest;  // of its content
  };
  // Copies `folder`, in the driver folder that OpenDrivers opened, as it is now. UNAVAILABLE: it is
  // being written to; else as ReadDriver.
  base::StatusOr<Taken> TakeCopy(int drivers, const std::string& folder,
                                 const DriverLimits& limits);

  // The drivers of which a version is held.
  std::set<std::string> Held() const;
  bool IsHeld(std::string_view driver) const;

  // The users that hold a version of the driver, in order; a user whose hold could not be read is
  // "?".
  std::vector<std::string> UsersOf(std::string_view driver) const;

  // Removes the versions that nobody holds or has pinned.
  void Collect();

  // Sets the function to call when nobody holds a version any more, or none of its pins is left, so
  // that it may be time to Collect. It is called on the thread that ends the hold or the pin, must
  // return soon and must not call the store.
  void OnReleased(std::function<void()> tell);

  base::StatusOr<DriverVersion> Kept(std::string_view driver, std::string_view id) const override;
  base::StatusOr<std::optional<DriverVersion>> HeldBy(std::string_view driver,
                                                      std::string_view user) const override;
  base::Status HoldVersion(const DriverVersion& version, std::string_view user) override;
  base::Status Release(const DriverVersion& version, std::string_view user) override;

 private:
  // Calls the function of OnReleased. Pins share it, because a pin may outlive the store.
  class Bell {
   public:
    void Ring() {
      base::MutexLock lock(mutex_);
      if (tell_) tell_();
    }
    void Set(std::function<void()> tell) {
      base::MutexLock lock(mutex_);
      tell_ = std::move(tell);
    }

   private:
    base::Mutex mutex_;  // taken after all other locks
    std::function<void()> tell_ ABSL_GUARDED_BY(mutex_);
  };
  struct Claim {
    std::string user;  // empty: it could not be read
    uint64_t order = 0;
    bool written = false;  // certainly on disk; else perhaps
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

  base::Status Load();
  base::Status LoadVersion(const Key& key);
  bool IsThere(const std::string& user) const;
  std::string FolderOf(const Key& key) const;
  std::string HoldsOf(const Key& key) const { return FolderOf(key) + "/.held"; }
  DriverVersion Pinned(const Key& key, Version& version) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  base::Status Sync(const Key& key, Version& version) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The version of a driver that a user's file holds last; end(): none.
  std::map<Key, Version>::iterator LastHeld(std::string_view driver, const std::string& file) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Makes the copy in the folder `fresh`, which may be left there.
  base::StatusOr<Taken> TakeBy(const std::string& fresh, int drivers, const std::string& folder,
                               const DriverLimits& limits);
  static base::Status PlaceCopy(const std::string& fresh, const std::string& path);
  base::Status Remove(const std::vector<Key>& keys);

  const Options options_;
  const base::UniqueFd lock_;
  base::Mutex taking_;  // one copy, one removal at a time; taken before mutex_
  mutable base::Mutex mutex_;
  mutable std::map<Key, Version> versions_ ABSL_GUARDED_BY(mutex_);
  const std::shared_ptr<Bell> bell_ = std::make_shared<Bell>();
};

}  // namespace berth::volume
