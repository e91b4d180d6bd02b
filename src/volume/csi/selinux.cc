#include "volume/csi/selinux.h"

#include <algorithm>
#include <set>
#include <vector>

namespace berth::volume::csi_volume {
namespace {

using base::Error;
using base::StatusCode;

// A container's options replace the pod's as a whole.
const Json& OptionsOf(const api::Pod& pod, const api::Container& container) {
  const Json* own = base::json::Find(container.json(), {"securityContext", "seLinuxOptions"});
  if (own != nullptr && own->is_object()) return *own;
  return base::json::Map(pod.json(), {"spec", "securityContext", "seLinuxOptions"});
}

// The label of files by these seLinuxOptions; "" if they name no level.
std::string MakeFileLabel(const Json& options) {
  const std::string level = base::json::String(options, {"level"});
  if (level.empty()) return "";
  // The role and type of files are used, because those in the options are for processes.
  return fmt::format("{}:object_r:container_file_t:{}",
                     base::json::String(options, {"user"}, "system_u"), level);
}

// The names under which the pod's containers use the volume: two names may lead to one claim.
std::set<std::string> FindVolumeNames(const api::Pod& pod, const VolumeSpec& spec) {
  std::set<std::string> names = {spec.name};
  const std::string claim = spec.pod_volume.claim_name();
  for (const api::PodVolume& volume : pod.volumes()) {
    if (!claim.empty() && volume.claim_name() == claim) names.insert(volume.name());
  }
  return names;
}

// The containers that use the volume.
std::vector<api::Container> UsersOf(const api::Pod& pod, const VolumeSpec& spec) {
  const std::set<std::string> names = FindVolumeNames(pod, spec);
  std::vector<api::Container> containers = pod.init_containers();
  const std::vector<api::Container> others = pod.containers();
  containers.insert(containers.end(), others.begin(), others.end());
  std::erase_if(containers, [&names](const api::Container& container) {
    const std::vector<api::VolumeMount> mounts = container.volume_mounts();
    return std::ranges::none_of(
        mounts, [&names](const api::VolumeMount& mount) { return names.contains(mount.name()); });
  });
  return containers;
}

// The labels that the containers request for the files; "" for containers that name no level.
std::set<std::string> LabelsOf(const api::Pod& pod, const VolumeSpec& spec) {
  std::set<std::string> labels;
  for (const api::Container& container : UsersOf(pod, spec)) {
    labels.insert(MakeFileLabel(OptionsOf(pod, container)));
  }
  return labels;
}

}  // namespace

StatusOr<std::string> FindMountContext(const api::Pod& pod, const VolumeSpec& spec) {
  if (pod.String({"spec", "securityContext", "seLinuxChangePolicy"}) == "Recursive") return "";
  const std::set<std::string> labels = LabelsOf(pod, spec);
  if (labels.size() <= 1) return labels.empty() ? "" : *labels.begin();
  return Error(StatusCode::kFailedPrecondition,
               "containers of the pod use volume '{}' with different SELinux labels, '{}' and "
               "'{}': let all have the same, or set seLinuxChangePolicy Recursive",
               spec.name, *labels.begin(), *labels.rbegin());
}

bool NamesLabel(const api::Pod& pod, const VolumeSpec& spec) {
  return std::ranges::any_of(UsersOf(pod, spec), [&pod](const api::Container& container) {
    return !OptionsOf(pod, container).empty();
  });
}

std::string FindFileLabel(const api::Pod& pod, const VolumeSpec& spec) {
  const std::set<std::string> labels = LabelsOf(pod, spec);
  return labels.size() == 1 ? *labels.begin() : "";
}

}  // namespace berth::volume::csi_volume
