#include "crust/pods/placeholder.h"

#include "base/log.h"
#include "platform/files/durable_file.h"

namespace berth::crust {
namespace {

using base::Error;
using base::Status;
using base::StatusCode;
using platform::AtTarget;

// Enough for the folders of the subPaths of all containers of a pod. Only root can enter it.
constexpr const char* kLimits = "size=64k,nr_inodes=8192,mode=0700";

}  // namespace

Status MakePlaceholder(platform::Mounter& mounter, const platform::TargetPath& target) {
  ASSIGN_OR_RETURN(const AtTarget mounted, platform::LookAtTarget(mounter, target.text()));
  if (mounted == AtTarget::kPlaceholder) return base::OkStatus();
  if (mounted == AtTarget::kOther) {
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
    ASSIGN_OR_RETURN(const AtTarget mounted, platform::LookAtTarget(mounter, target.text()));
    if (mounted != AtTarget::kPlaceholder) return base::OkStatus();
    RETURN_IF_ERROR(mounter.Unmount(target.text()));
  }
}

}  // namespace berth::crust
