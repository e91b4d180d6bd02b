#include "volume/flex/driver_store.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <vector>

#include "base/fault.h"
#include "base/ids.h"
#include "base/json.h"
#include "base/log.h"
#include "base/text.h"
#include "platform/errno.h"
#include "platform/files/durable_file.h"
#include "platform/files/folder_walk.h"
#include "platform/files/private_folder.h"
#include "platform/files/record_files.h"
#include "volume/flex/driver_copy.h"

namespace berth::volume {
namespace {

using base::Error;
using base::MutexLock;
using base::Quote;
using base::Status;
using base::StatusCode;
using base::StatusOr;
using base::UniqueFd;
using platform::ErrnoError;

constexpr std::string_view kNew = ".new";
constexpr std::string_view kGone = ".gone";
constexpr int kFolder = O_RDONLY | O_DIRECTORY | O_CLOEXEC;

// Syncs a folder that this process made, with its content.
Status SyncTree(int fd) {
  Status status;
  const int error = platform::ForEachName(fd, 0, [&](const char* name) {
    if (!status.ok()) return;
    const UniqueFd inner = platform::OpenWithinMount(fd, name, O_RDONLY | O_NONBLOCK);
    struct stat st;
    if (!inner.valid()) {
      if (errno != ELOOP) status = ErrnoError(errno, fmt::format("open {}", Quote(name)));
    } else if (fstat(inner.get(), &st) != 0) {
      status = ErrnoError(errno, fmt::format("stat {}", Quote(name)));
    } else if (S_ISDIR(st.st_mode)) {
      status = SyncTree(inner.get());
    } else if (fsync(inner.get()) != 0) {
      status = ErrnoError(errno, fmt::format("fsync {}", Quote(name)));
    }
  });
  RETURN_IF_ERROR(status);
  if (error != 0) return ErrnoError(error, "read");
  return fsync(fd) == 0 ? base::OkStatus() : ErrnoError(errno, "fsync");
}

Status SyncFolder(const std::string& path, bool whole) {
  const UniqueFd fd(open(path.c_str(), kFolder));
  if (!fd.valid()) return ErrnoError(errno, fmt::format("open {}", Quote(path)));
  if (whole) return base::Annotate(SyncTree(fd.get()), fmt::format("sync {}", Quote(path)));
  return fsync(fd.get()) == 0 ? base::OkStatus()
                              : ErrnoError(errno, fmt::format("fsync {}", Quote(path)));
}

constexpr int kHoldVersion = 1;

struct HoldRecord {
  uint64_t order = 0;
  std::string user;  // empty: it could not be read
};

// Earlier versions of Berth wrote "ORDER USER", without a version.
HoldRecord ParseUnversionedHold(const std::string& content) {
  HoldRecord record;
  const char* const end = content.data() + content.size();
  const auto [rest, error] = std::from_chars(content.data(), end, record.order);
  if (error == std::errc() && rest != end && *rest == ' ') record.user.assign(rest + 1, end);
  return record;
}

HoldRecord ParseHold(const StatusOr<std::string>& content) {
  if (!content.ok()) return {};
  if (!content->starts_with('{')) return ParseUnversionedHold(*content);
  const auto record = platform::ParseRecord(*content, kHoldVersion);
  if (!record.ok()) return {};
  return {.order = static_cast<uint64_t>(base::json::Int(*record, {"order"})),
          .user = base::json::String(*record, {"user"})};
}

std::string EncodeHold(uint64_t order, std::string_view user) {
  return base::json::Dump({{"version", kHoldVersion}, {"order", order}, {"user", user}});
}

Status MakeEmptyFolder(const std::string& path) {
  if (mkdir(path.c_str(), 0755) == 0) return base::OkStatus();
  if (errno == EEXIST) {
    RETURN_IF_ERROR(platform::RemoveTree(path));
    if (mkdir(path.c_str(), 0755) == 0) return base::OkStatus();
  }
  return ErrnoError(errno, fmt::format("make folder {}", Quote(path)));
}

}  // namespace

StatusOr<std::shared_ptr<DriverStore>> DriverStore::Open(Options options) {
  const std::string context = fmt::format("driver store {}", Quote(options.folder));
  RETURN_IF_ERROR_WITH(platform::MakePrivateFolder(options.folder), context);
  StatusOr<UniqueFd> lock = platform::LockFile(options.folder);
  RETURN_IF_ERROR_WITH(lock, context);
  std::shared_ptr<DriverStore> store(new DriverStore(std::move(options), *std::move(lock)));
  RETURN_IF_ERROR_WITH(store->LoadVersions(), context);
  return store;
}

Status DriverStore::LoadVersions() {
  MutexLock taking(taking_);
  RETURN_IF_ERROR(platform::RemoveTree(fmt::format("{}/{}", options_.folder, kNew)));
  RETURN_IF_ERROR(platform::RemoveTree(fmt::format("{}/{}", options_.folder, kGone)));
  ASSIGN_OR_RETURN(const auto folders, platform::ListFolder(options_.folder));
  std::vector<Key> unheld;
  for (const std::string& folder : folders) {
    const StatusOr<std::string> driver = DriverOfFolder(folder);
    if (!driver.ok()) continue;  // no folder of a driver
    ASSIGN_OR_RETURN(const auto ids,
                     platform::ListFolder(fmt::format("{}/{}", options_.folder, folder)));
    for (const std::string& id : ids) {
      RETURN_IF_ERROR(LoadVersion({*driver, id}));
      MutexLock lock(mutex_);
      if (!versions_.contains({*driver, id})) unheld.emplace_back(*driver, id);
    }
  }
  return RemoveVersions(unheld);
}

// Loads a held version, and forgets the holds of users that are gone.
Status DriverStore::LoadVersion(const Key& key) {
  const std::string holds = HoldsOf(key);
  RETURN_IF_ERROR(platform::RemoveTornWrites(holds));
  const auto names = platform::ListFolder(holds);
  if (names.status().code() == StatusCode::kNotFound) return base::OkStatus();
  RETURN_IF_ERROR(names);
  Version version{.pin = {}, .holds = {}, .synced = true};
  for (const std::string& name : *names) {
    const std::string path = fmt::format("{}/{}", holds, name);
    const HoldRecord record = ParseHold(platform::ReadFile(path));
    if (!record.user.empty() && !Exists(record.user)) {
      LOG_INFO("driver {}: {} no longer exists, so its hold of version {} ends", Quote(key.first),
               Quote(record.user), key.second);
      RETURN_IF_ERROR(platform::RemoveDurably<"flex.hold">(path));
    } else {
      version.holds.emplace(name,
                            Claim{.user = record.user, .order = record.order, .written = true});
    }
  }
  MutexLock lock(mutex_);
  if (!version.holds.empty()) versions_.emplace(key, std::move(version));
  return base::OkStatus();
}

// Whether the user's path exists, below the kubelet folder. Reads the names in the parent folder,
// because the path may be a mount point that no longer answers.
bool DriverStore::Exists(const std::string& user) const {
  if (options_.users.empty()) return true;
  const std::string path = fmt::format("{}/{}", options_.users, user);
  const auto names = platform::ListFolder(std::string(base::FolderOf(path)));
  if (!names.ok()) return names.status().code() != StatusCode::kNotFound;
  return std::ranges::binary_search(*names, base::FileNameOf(path));
}

std::string DriverStore::FolderOf(const Key& key) const {
  return fmt::format("{}/{}/{}", options_.folder, FolderOfDriver(key.first), key.second);
}

DriverVersion DriverStore::PinVersion(const Key& key, Version& version) const {
  std::shared_ptr<const void> pin = version.pin.lock();
  if (pin == nullptr) {
    pin.reset(notifier_.get(), [notifier = notifier_](const Notifier*) { notifier->Notify(); });
    version.pin = pin;
  }
  return {
      .driver = key.first,
      .executable = fmt::format("{}/{}", FolderOf(key), key.first.substr(key.first.find('/') + 1)),
      .id = key.second,
      .pin = std::move(pin)};
}

StatusOr<DriverStore::Taken> DriverStore::TakeCopy(int drivers, const std::string& folder,
                                                   const DriverLimits& limits) {
  MutexLock taking(taking_);
  const std::string fresh = fmt::format("{}/{}", options_.folder, kNew);
  StatusOr<Taken> taken = MakeCopy(fresh, drivers, folder, limits);
  // The copy failed, or is equal to an existing version.
  if (access(fresh.c_str(), F_OK) == 0) RETURN_IF_ERROR(platform::RemoveTree(fresh));
  return taken;
}

StatusOr<DriverStore::Taken> DriverStore::MakeCopy(const std::string& fresh, int drivers,
                                                   const std::string& folder,
                                                   const DriverLimits& limits) {
  ASSIGN_OR_RETURN(const DriverFolder found, ReadDriver(drivers, folder, limits));
  RETURN_IF_ERROR(MakeEmptyFolder(fresh));
  const UniqueFd to(open(fresh.c_str(), kFolder));
  if (!to.valid()) return ErrnoError(errno, fmt::format("open {}", Quote(fresh)));
  ASSIGN_OR_RETURN(DriverDigests digests, CopyDriver(drivers, found, to.get()));
  const StatusOr<DriverFolder> after = ReadDriver(drivers, folder, limits);
  if (!after.ok() || !(*after == found)) {
    return Error(StatusCode::kUnavailable, "it changed while it was copied");
  }
  RETURN_IF_ERROR(base::FaultPoint<"flex.version.copied">());
  const Key key(found.driver, std::move(digests.folder));
  MutexLock lock(mutex_);
  if (!versions_.contains(key)) RETURN_IF_ERROR(PlaceCopy(fresh, FolderOf(key)));
  Taken taken{.version = PinVersion(key, versions_[key]),
              .found = found,
              .executable_digest = std::move(digests.executable)};
  RETURN_IF_ERROR(base::FaultPoint<"flex.version.placed">());
  return taken;
}

Status DriverStore::PlaceCopy(const std::string& fresh, const std::string& path) {
  const std::string driver(base::FolderOf(path));
  if (mkdir(driver.c_str(), 0755) != 0 && errno != EEXIST) {
    return ErrnoError(errno, fmt::format("make folder {}", Quote(driver)));
  }
  if (rename(fresh.c_str(), path.c_str()) == 0) return base::OkStatus();
  // An earlier removal failed and left a folder there.
  if (errno == ENOTEMPTY || errno == EEXIST) {
    RETURN_IF_ERROR(platform::RemoveTree(path));
    if (rename(fresh.c_str(), path.c_str()) == 0) return base::OkStatus();
  }
  return ErrnoError(errno, fmt::format("rename a copy to {}", Quote(path)));
}

std::set<std::string> DriverStore::ListHeldDrivers() const {
  std::set<std::string> drivers;
  MutexLock lock(mutex_);
  for (const auto& [key, version] : versions_) {
    if (!version.holds.empty()) drivers.insert(key.first);
  }
  return drivers;
}

bool DriverStore::IsHeld(std::string_view driver) const {
  MutexLock lock(mutex_);
  return std::ranges::any_of(versions_, [&](const auto& entry) {
    return entry.first.first == driver && !entry.second.holds.empty();
  });
}

std::vector<std::string> DriverStore::UsersOf(std::string_view driver) const {
  std::set<std::string> users;
  MutexLock lock(mutex_);
  for (const auto& [key, version] : versions_) {
    if (key.first != driver) continue;
    for (const auto& [file, claim] : version.holds) {
      users.insert(claim.user.empty() ? "?" : claim.user);
    }
  }
  return {users.begin(), users.end()};
}

void DriverStore::RemoveUnused() {
  MutexLock taking(taking_);
  std::vector<Key> keys;
  {
    MutexLock lock(mutex_);
    for (const auto& [key, version] : versions_) {
      if (!version.needed()) keys.push_back(key);
    }
    // From here on FindVersion does not find them, so they cannot be pinned any more.
    for (const Key& key : keys) versions_.erase(key);
  }
  if (const Status removed = RemoveVersions(keys); !removed.ok()) {
    LOG_WARNING("remove old driver versions: {}", base::ToString(removed));
  }
}

// Each version is renamed before it is removed, so that a partly removed folder is never taken for
// a version.
Status DriverStore::RemoveVersions(const std::vector<Key>& keys) {
  if (keys.empty()) return base::OkStatus();
  const std::string gone = fmt::format("{}/{}", options_.folder, kGone);
  RETURN_IF_ERROR(MakeEmptyFolder(gone));
  RETURN_IF_ERROR(base::FaultPoint<"flex.version.remove">());
  for (size_t i = 0; i < keys.size(); ++i) {
    const std::string path = FolderOf(keys[i]);
    if (rename(path.c_str(), fmt::format("{}/{}", gone, i).c_str()) != 0 && errno != ENOENT) {
      return ErrnoError(errno, fmt::format("remove {}", Quote(path)));
    }
    rmdir(std::string(base::FolderOf(path)).c_str());  // the driver's last version
  }
  RETURN_IF_ERROR(base::FaultPoint<"flex.version.gone">());
  return platform::RemoveTree(gone);
}

void DriverStore::SetOnReleased(std::function<void()> on_released) {
  notifier_->SetOnReleased(std::move(on_released));
}

StatusOr<DriverVersion> DriverStore::FindVersion(std::string_view driver,
                                                 const DriverVersionId& id) const {
  const Key key(driver, id.text());
  MutexLock lock(mutex_);
  const auto found = versions_.find(key);
  if (found != versions_.end()) return PinVersion(key, found->second);
  return Error(StatusCode::kNotFound, "version {} of Flexvolume driver {} is not kept", id,
               Quote(driver));
}

Status DriverStore::SyncVersion(const Key& key, Version& version) {
  if (version.synced) return base::OkStatus();
  const std::string folder = FolderOf(key);
  RETURN_IF_ERROR(platform::MakeFolders(HoldsOf(key), 0700));
  RETURN_IF_ERROR(SyncFolder(folder, true));
  RETURN_IF_ERROR(SyncFolder(std::string(base::FolderOf(folder)), false));
  RETURN_IF_ERROR(SyncFolder(options_.folder, false));
  version.synced = true;
  return base::OkStatus();
}

std::map<DriverStore::Key, DriverStore::Version>::iterator DriverStore::FindLastHeld(
    std::string_view driver, const std::string& file) const {
  auto last = versions_.end();
  uint64_t order = 0;
  for (auto it = versions_.begin(); it != versions_.end(); ++it) {
    const auto hold = it->second.holds.find(file);
    if (it->first.first != driver || hold == it->second.holds.end()) continue;
    if (last != versions_.end() && hold->second.order < order) continue;
    last = it;
    order = hold->second.order;
  }
  return last;
}

StatusOr<std::optional<DriverVersion>> DriverStore::FindHeldVersion(std::string_view driver,
                                                                    std::string_view user) const {
  MutexLock lock(mutex_);
  const auto last = FindLastHeld(driver, base::Sha256Hex(user));
  if (last == versions_.end()) return std::optional<DriverVersion>();
  return std::optional(PinVersion(last->first, last->second));
}

Status DriverStore::HoldVersion(const DriverVersion& version, std::string_view user) {
  const Key key(version.driver, version.id);
  const std::string file = base::Sha256Hex(user);
  MutexLock lock(mutex_);
  const auto found = versions_.find(key);
  if (found == versions_.end()) {
    return Error(StatusCode::kNotFound, "version {} of Flexvolume driver {} is not kept",
                 Quote(version.id), Quote(version.driver));
  }
  RETURN_IF_ERROR(SyncVersion(key, found->second));
  const auto last = FindLastHeld(version.driver, file);
  if (last == found && found->second.holds[file].written) return base::OkStatus();
  // The hold counts before it is written and until it is certainly removed, because it may be on
  // disk.
  Claim& claim = found->second.holds[file];
  claim.user = user;
  claim.written = false;
  if (last != versions_.end()) claim.order = last->second.holds[file].order + 1;
  RETURN_IF_ERROR(platform::WriteDurably<"flex.hold">(fmt::format("{}/{}", HoldsOf(key), file),
                                                      EncodeHold(claim.order, user)));
  claim.written = true;
  return base::OkStatus();
}

Status DriverStore::ReleaseVersion(const DriverVersion& version, std::string_view user) {
  const Key key(version.driver, version.id);
  const std::string file = base::Sha256Hex(user);
  MutexLock lock(mutex_);
  const auto found = versions_.find(key);
  if (found == versions_.end() || !found->second.holds.contains(file)) return base::OkStatus();
  found->second.holds[file].written = false;
  RETURN_IF_ERROR(platform::RemoveDurably<"flex.hold">(fmt::format("{}/{}", HoldsOf(key), file)));
  found->second.holds.erase(file);
  if (found->second.holds.empty()) notifier_->Notify();
  return base::OkStatus();
}

}  // namespace berth::volume
