#include "node/volumes/crust_request.h"

#include <algorithm>

namespace berth::node {

::crust::v1alpha1::RuntimePublishVolumeRequest MakePublishRequest(
    const volume::DeferredMount& mount, const std::string& target, bool read_only) {
  ::crust::v1alpha1::RuntimePublishVolumeRequest request;
  request.set_host_volume_id(mount.source);
  request.set_host_target_path(target);
  request.set_file_system(mount.fs_type);
  for (const std::string& option : mount.options) request.add_mount_options(option);
  if (read_only && std::ranges::find(mount.options, "ro") == mount.options.end()) {
    request.add_mount_options("ro");
  }
  if (mount.fs_group.has_value()) {
    request.set_fsgroup_gid(*mount.fs_group);
    request.set_fsgroup_policy(mount.only_on_root_mismatch ? "OnRootMismatch" : "Always");
  }
  request.set_selinux_label(mount.selinux_label);
  return request;
}

}  // namespace berth::node
