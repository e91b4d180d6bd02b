#include "csidriver/presence.h"

#include <sys/stat.h>

#include <algorithm>

#include "base/log.h"
#include "block/mounts.h"
#include "platform/mounts/placeholder.h"

namespace berth::csidriver {
namespace {

// Used for a deferred target, which is a plain folder on this host. The folder is made before the
// publish is answered and removed at the unpublish, so without the folder no pod uses the volume
// through this target.
bool IsFolder(const std::string& path) {
  struct stat st;
  return lstat(path.c_str(), &st) == 0 && S_ISDIR(st.st_mode);
}

}  // namespace

base::StatusOr<Presence> Presence::Find(const block::Pool& pool, platform::Mounter& mounter,
                                        const std::string& volume_id,
                                        std::optional<NodeRecord> recorded) {
  Presence presence;
  presence.recorded_ = std::move(recorded);
  ASSIGN_OR_RETURN(presence.device_, pool.FindDevice(volume_id));
  ASSIGN_OR_RETURN(presence.table_, mounter.List());
  return presence;
}

Found Presence::FindAt(std::string_view path) const {
  const platform::MountEntry* mount = MountAt(path);
  if (mount == nullptr || platform::IsPlaceholder(*mount)) return Found::kNothing;
  if (device_.has_value()) {
    const bool ours =
        block::ShowsFileSystemOf(*mount, *device_) || block::ShowsNodeOf(*mount, *device_);
    return ours ? Found::kOurs : Found::kForeign;
  }
  // Without the pool's record the device is unknown. This node's record of this boot still names
  // the paths where the volume was mounted, so that a pod can end.
  const bool named =
      recorded_.has_value() && (recorded_->staging_path.text() == path ||
                                recorded_->FindTarget(platform::TargetPath(path)) != nullptr);
  return named && mount->source.starts_with("/dev/loop") ? Found::kOurs : Found::kForeign;
}

bool Presence::IsUsed() const {
  if (!recorded_.has_value()) return false;
  return FindAt(recorded_->staging_path.text()) == Found::kOurs || !FindTargets().empty();
}

std::vector<PublishedTarget> Presence::FindTargets(const platform::TargetPath& except) const {
  std::vector<PublishedTarget> present;
  if (!recorded_.has_value()) return present;
  for (const PublishedTarget& target : recorded_->targets) {
    if (target.path == except) continue;
    // If something is mounted at a deferred target, its folder is not checked, because that mount
    // may hang.
    const bool exists = target.deferred
                            ? MountAt(target.path.text()) != nullptr || IsFolder(target.path.text())
                            : FindAt(target.path.text()) == Found::kOurs;
    if (exists) present.push_back(target);
  }
  return present;
}

bool Presence::IsDeferred() const {
  return std::ranges::any_of(FindTargets(), &PublishedTarget::deferred);
}

std::string Presence::FindMountPoint() const {
  for (const platform::MountEntry& mount : table_) {
    if (device_.has_value() && block::ShowsFileSystemOf(mount, *device_)) return mount.mount_point;
  }
  return "";
}

}  // namespace berth::csidriver
