#include "block/images/folder_locks.h"

#include <fcntl.h>
#include <linux/stat.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

#include <algorithm>
#include <cerrno>

#include "base/ids.h"
#include "base/log.h"
#include "base/text.h"
#include "platform/files/durable_file.h"
#include "platform/files/record_files.h"
#include "platform/processes/child.h"

namespace berth::block {

using base::Error;
using base::Quote;
using base::Status;
using base::StatusCode;
using base::StatusOr;
using platform::MountEntry;
using std::chrono::steady_clock;

namespace {

constexpr std::chrono::seconds kMountAnswerTime{10};  // of the folder's file system
// A mount that was found is used again for so long. The time is short, because a remount may change
// the mount's options.
constexpr std::chrono::seconds kMaxMountAge{30};
constexpr char kRetakesLostLocks[] = "/sys/module/nfs/parameters/recover_lost_locks";

bool RetakesLostLocks() {
  const auto setting = platform::ReadFile(kRetakesLostLocks, 16);
  return setting.ok() && setting->starts_with('Y');
}

const MountEntry* FindEntry(const std::vector<MountEntry>& table, std::optional<uint64_t> mount_id,
                            uint64_t device) {
  const auto found = std::ranges::find_if(table, [&](const MountEntry& entry) {
    return mount_id.has_value() ? entry.id == *mount_id
                                : makedev(entry.major, entry.minor) == device;
  });
  return found == table.end() ? nullptr : &*found;
}

}  // namespace

// Asks in a child process, because a file system that no longer answers would block a thread for
// ever.
StatusOr<FolderLocks::Place> FolderLocks::FindPlaceOf(const std::string& folder) {
  return platform::AskChild<Place>(
      fmt::format("look at the folder of images {}", Quote(folder)), kMountAnswerTime,
      [folder](Place& place) {
        struct statx found = {};
        if (statx(AT_FDCWD, folder.c_str(), 0, STATX_TYPE | STATX_MNT_ID, &found) != 0) {
          return errno;
        }
        if (!S_ISDIR(found.stx_mode)) return ENOTDIR;
        struct statfs fs = {};
        if (statfs(folder.c_str(), &fs) != 0) return errno;
        place = {.has_mount_id = (found.stx_mask & STATX_MNT_ID) != 0,
                 .mount_id = found.stx_mnt_id,
                 .device = makedev(found.stx_dev_major, found.stx_dev_minor),
                 .magic = fs.f_type};
        return 0;
      });
}

StatusOr<FolderLocks::Mount> FolderLocks::FindMount(std::chrono::seconds max_age) {
  ASSIGN_OR_RETURN(const Place place, *place_.Get([this] { return FindPlaceOf(folder_); }));
  {
    const base::MutexLock lock(mutex_);
    if (found_.has_value() && place.has_mount_id && found_->id == place.mount_id &&
        found_->device == place.device && steady_clock::now() - found_at_ < max_age) {
      return *found_;
    }
  }
  ASSIGN_OR_RETURN(const std::vector<MountEntry> table, mounter_.List());
  ASSIGN_OR_RETURN(const std::string boot_id, platform::ReadBootId());
  const auto mount_id = place.has_mount_id ? std::optional(place.mount_id) : std::nullopt;
  Mount mount;
  mount.id = place.mount_id;
  mount.device = place.device;
  std::string identity = fmt::format("{} {}", boot_id, place.device);
  if (const MountEntry* entry = FindEntry(table, mount_id, place.device); entry != nullptr) {
    mount.read_only = entry->read_only();
    mount.locks = JudgeLocks(*entry, RetakesLostLocks());
    mount.lapse = block::DescribeLapse(*entry);
    mount.text = fmt::format("{} of {}", entry->fs_type, Quote(entry->source));
    identity += fmt::format(" {} {} {}", entry->fs_type, entry->source,
                            fmt::join(entry->super_options, ","));
  } else {
    mount.locks = JudgeLocksByMagic(place.magic);
    mount.text = "a mount that this process does not see";
    identity += fmt::format(" {}", place.magic);
  }
  mount.session = base::Sha256Hex(identity).substr(0, kSessionLength);
  const base::MutexLock lock(mutex_);
  found_ = mount;
  found_at_ = steady_clock::now();
  return mount;
}

Status FolderLocks::CheckReach(const Mount& mount) const {
  if (mount.locks.reach != LockReach::kNowhere) return base::OkStatus();
  return Error(StatusCode::kFailedPrecondition,
               "the folder of images {} is on {}, where two nodes may write to one image: {}",
               Quote(folder_), mount.text, mount.locks.why);
}

StatusOr<dev_t> FolderLocks::CheckMount() {
  ASSIGN_OR_RETURN(const Mount mount, FindMount(kMaxMountAge));
  RETURN_IF_ERROR(CheckReach(mount));
  return mount.device;
}

StatusOr<std::shared_ptr<LockHandshake>> FolderLocks::HandshakeOf(const std::string& life) {
  // The uid becomes a part of a path, so it must not lead out of the folder.
  const bool valid = !life.empty() && life.find_first_not_of(
                                          "0123456789abcdefghijklmnopqrstuvwxyz"
                                          "ABCDEFGHIJKLMNOPQRSTUVWXYZ-") == std::string::npos;
  if (!valid) {
    return Error(StatusCode::kInvalidArgument, "{} is not the uid of a StorageCluster",
                 Quote(life));
  }
  const base::MutexLock lock(mutex_);
  std::shared_ptr<LockHandshake>& handshake = handshakes_[life];
  if (handshake == nullptr) {
    handshake = std::make_shared<LockHandshake>(fmt::format("{}/.berth/nodes/{}", folder_, life));
  }
  return handshake;
}

Status FolderLocks::ExchangeLocks(const std::string& life) {
  // A mount that was found before is used, because each attach calls this function and the mount
  // table may be long.
  ASSIGN_OR_RETURN(const Mount mount, FindMount(kMaxMountAge));
  RETURN_IF_ERROR(CheckReach(mount));
  // One kernel holds all locks, so this node sees them without notes.
  if (mount.locks.reach == LockReach::kOneMachine) return base::OkStatus();
  ASSIGN_OR_RETURN(const auto handshake, HandshakeOf(life));
  Status shown = base::OkStatus();
  // A node that mounted the folder for reading cannot write to an image either.
  if (!node_.empty() && !mount.read_only) {
    shown = handshake->ShowLock(
        {.node = node_,
         .session = mount.session,
         .weakness = mount.locks.reach == LockReach::kFencing ? "" : mount.locks.why});
    // On a full disk this node still notes the locks of others, because some notes need no room.
    if (shown.code() != StatusCode::kResourceExhausted) RETURN_IF_ERROR(shown);
  }
  const Status noted = handshake->NoteLocks(mount.session);
  if (noted.code() == StatusCode::kDeadlineExceeded) return noted;
  if (!shown.ok()) return shown;
  if (noted.code() == StatusCode::kResourceExhausted) return noted;
  if (!noted.ok()) LOG_WARNING("cannot note the locks of other nodes: {}", base::ToString(noted));
  return base::OkStatus();
}

void FolderLocks::LeaveLocks(const std::string& life) {
  std::shared_ptr<LockHandshake> handshake;
  {
    const base::MutexLock lock(mutex_);
    const auto found = handshakes_.find(life);
    if (found == handshakes_.end()) return;
    handshake = std::move(found->second);
    handshakes_.erase(found);
  }
  // If the folder does not answer, this node's files stay in it.
  if (FindPlaceOf(folder_).ok()) handshake->HideLock();
}

Status FolderLocks::ProveLocks(const std::string& life, const api::NodeName& node) {
  ASSIGN_OR_RETURN(const Mount mount, FindMount(std::chrono::seconds(0)));
  switch (mount.locks.reach) {
    case LockReach::kOneMachine:
      // No other machine sees this image, so what another node may have is another image.
      return base::OkStatus();
    case LockReach::kNowhere:
    case LockReach::kAdvisory:
      return Error(StatusCode::kUnimplemented,
                   "on {} a missing lock of the image does not prove that no node uses it: {}",
                   mount.text, mount.locks.why);
    case LockReach::kFencing:
      break;
  }
  ASSIGN_OR_RETURN(const auto handshake, HandshakeOf(life));
  return handshake->ProveSeen(mount.session, node);
}

std::string FolderLocks::DescribeLapse() {
  const auto mount = FindMount(kMaxMountAge);
  return mount.ok() ? mount->lapse : "";
}

}  // namespace berth::block
