#include "volume/csi/selinux.h"

#include <algorithm>
#include <optional>
#include <set>

namespace berth::volume::csi_volume {
namespace {

using base::Error;
using base::StatusCode;

// A container's options count as a whole in place of the pod's.
const Json& OptionsOf(const api::Pod& pod, const api::Container& container) {
  const Json* own = base::json::Find(container.json(), {"securityContext", "seLinuxOptions"});
  if (own != nullptr && own->is_object()) return *own;
  return base::json::Map(pod.json(), {"spec", "securityContext", "seLinuxOptions"});
}

// Empty without a level.
std::string FileLabel(const Json& options) {
  const std::string level = base::json::String(options, {"level"});
  if (level.empty()) return "";
  // Role and type in the options are the process's; its files have these.
  return fmt::format("{}:object_r:container_file_t:{}",
                     base::json::String(options, {"user"}, "system_u"), level);
}

// The names by which the pod's containers know the volume: two may lead to one claim.
std::set<std::string> NamesOf(const api::Pod& pod, const VolumeSpec& spec) {
  std::set<std::string> names = {spec.name};
  const std::string claim = spec.pod_volume.claim_name();
  for (const api::PodVolume& volume : pod.volumes()) {
    if (!claim.empty() && volume.claim_name() == claim) names.insert(volume.name());
  }
  return names;
}

bool Uses(const api::Container& container, const std::set<std::string>& names) {
  const std::vector<api::VolumeMount> mounts = container.volume_mounts();
  return std::any_of(mounts.begin(), mounts.end(), [&names](const api::VolumeMount& mount) {
    return names.contains(mount.name());
  });
}

}  // namespace

StatusOr<std::string> MountContext(const api::Pod& pod, const VolumeSpec& spec) {
  if (pod.String({"spec", "securityContext", "seLinuxChangePolicy"}) == "Recursive") return "";
  const std::set<std::string> names = NamesOf(pod, spec);
  std::optional<std::string> label;
  std::vector<api::Container> containers = pod.init_containers();
  const std::vector<api::Container> others = pod.containers();
  containers.insert(containers.end(), others.begin(), others.end());
  for (const api::Container& container : containers) {
    if (!Uses(container, names)) continue;
    const std::string own = FileLabel(OptionsOf(pod, container));
    if (label.has_value() && *label != own) {
      return Error(StatusCode::kFailedPrecondition,
                   "containers of the pod use volume '{}' with different SELinux labels, '{}' and "
                   "'{}': let all have the same, or set seLinuxChangePolicy Recursive",
                   spec.name, *label, own);
    }
    label = own;
  }
  return label.value_or("");
}

}  // namespace berth::volume::csi_volume
