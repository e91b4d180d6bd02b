#include "crust/pods/placeholder.h"

#include "base/log.h"
#include "platform/files/durable_file.h"

namespace berth::crust {
namespace {

using base::Error;
using base::Status;
using base::StatusCode;
using base::StatusOr;

// Enough for the folders of the subPaths of all containers of a pod. Only root can enter it.
constexpr const char* kLimits = "size=64k,nr_inodes=8192,mode=0700";

// What is mounted at a target path.
enum class Mounted { kNothing, kPlaceholder, kOther };

StatusOr<Mounted> FindMounted(platform::Mounter& mounter, const platform::TargetPath& target) {
  const StatusOr<std::string> path = platform::ResolveMountPoint(target.text());
  if (path.status().code() == StatusCode::kNotFound) return Mounted::kNothing;
  RETURN_IF_ERROR(path);
  ASSIGN_OR_RETURN(const auto table, mounter.List());
  const platform::MountEntry* mount = platform::FindMount(table, *path);
  if (mount == nullptr) return Mounted::kNothing;
  return platform::IsPlaceholder(*mount) ? Mounted::kPlaceholder : Mounted::kOther;
}

}  // namespace

Status MakePlaceholder(platform::Mounter& mounter, const platform::TargetPath& target) {
  ASSIGN_OR_RETURN(const Mounted mounted, FindMounted(mounter, target));
  if (mounted == Mounted::kPlaceholder) return base::OkStatus();
  if (mounted == Mounted::kOther) {
    return Error(StatusCode::kFailedPrecondition,
                 "something is mounted on the host at {}, where the deferred volume would be",
                 target);
  }
  RETURN_IF_ERROR(platform::MakeFolders(target.text(), 0750));
  return mounter.Mount({.source = std::string(platform::kPlaceholderSource),
                        .target = target.text(),
                        .fs_type = std::string(platform::kPlaceholderType),
                        .options = {"nosuid", "nodev", "noexec", kLimits}});
}

Status RemovePlaceholder(platform::Mounter& mounter, const platform::TargetPath& target) {
  // There are two if an earlier mount was made after its deadline.
  while (true) {
    ASSIGN_OR_RETURN(const Mounted mounted, FindMounted(mounter, target));
    if (mounted != Mounted::kPlaceholder) return base::OkStatus();
    RETURN_IF_ERROR(mounter.Unmount(target.text()));
  }
}

}  // namespace berth::crust
