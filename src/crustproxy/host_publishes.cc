#include "crustproxy/host_publishes.h"

#include "crustproxy/kubelet_request.h"
#include "node/volumes/crust_decision.h"
#include "platform/mounts/placeholder.h"
#include "volume/volume_files.h"

namespace berth::crustproxy {

using base::StatusCode;
using base::StatusOr;

StatusOr<std::optional<api::PodUid>> FindHostPublish(
    platform::Mounter& mounter, const volume::Paths& paths, const VolumeRecord& record,
    const api::VolumeName& name, const platform::TargetPath& target, std::string_view fs_type) {
  for (const platform::TargetPath& each : record.host_targets) {
    const std::optional<PodTarget> other = ReadTarget(paths, each.text());
    if (each != target && other.has_value() && !node::AllowsParallelMounts(fs_type)) {
      return std::optional(other->pod);
    }
  }
  // The mount table has paths without symlinks.
  const StatusOr<std::string> pods = platform::ResolveMountPoint(paths.Pods());
  if (pods.status().code() == StatusCode::kNotFound) return std::optional<api::PodUid>();
  RETURN_IF_ERROR(pods);
  const volume::Paths resolved(volume::ParentOf(*pods));
  const std::optional<PodTarget> own = ReadTarget(paths, target.text());
  ASSIGN_OR_RETURN(const auto table, mounter.List());
  for (const platform::MountEntry& mount : table) {
    const std::optional<PodTarget> other = ReadTarget(resolved, mount.mount_point);
    if (!other.has_value() || other->volume != name || platform::IsPlaceholder(mount)) continue;
    if (own.has_value() && other->pod == own->pod) continue;
    if (!node::AllowsParallelMounts(mount.fs_type)) return std::optional(other->pod);
  }
  return std::optional<api::PodUid>();
}

}  // namespace berth::crustproxy
