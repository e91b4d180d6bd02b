#include "platform/mounts/placeholder.h"

namespace berth::platform {

bool IsPlaceholder(const MountEntry& mount) {
  return mount.fs_type == kPlaceholderType && mount.source == kPlaceholderSource &&
         mount.root == "/";
}

base::StatusOr<AtTarget> LookAtTarget(Mounter& mounter, const std::string& target) {
  const base::StatusOr<std::string> path = ResolveMountPoint(target);
  if (path.status().code() == base::StatusCode::kNotFound) return AtTarget::kNothing;
  RETURN_IF_ERROR(path);
  ASSIGN_OR_RETURN(const auto table, mounter.List());
  const MountEntry* mount = FindMount(table, *path);
  if (mount == nullptr) return AtTarget::kNothing;
  return IsPlaceholder(*mount) ? AtTarget::kPlaceholder : AtTarget::kOther;
}

}  // namespace berth::platform
