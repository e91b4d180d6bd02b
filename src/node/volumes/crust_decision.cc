#include "node/volumes/crust_decision.h"

#include <algorithm>

#include "api/kinds/runtime_mount.h"

namespace berth::node {
namespace {

using Rpc = crust_api::RuntimeCapability::RPC;

// File systems that several kernels can mount at the same time, because they coordinate their
// access.
constexpr std::string_view kParallel[] = {"nfs",  "nfs4",      "ceph",  "cifs",  "smb3",
                                          "gfs2", "glusterfs", "ocfs2", "lustre"};
constexpr std::string_view kFuse = "fuse.";  // before the type, in the mount table

}  // namespace

bool HandlerOffer::Has(Rpc::Type capability) const {
  return std::ranges::find(capabilities, capability) != capabilities.end();
}

PodNeeds NeedsOf(const api::Pod& pod, const std::vector<std::string>& names) {
  PodNeeds needs;
  for (const std::string_view kind : {"initContainers", "containers", "ephemeralContainers"}) {
    for (const base::Json& container : base::json::Array(pod.json(), {"spec", kind})) {
      for (const base::Json& json : base::json::Array(container, {"volumeMounts"})) {
        const api::VolumeMount mount(json);
        if (std::ranges::find(names, mount.name()) == names.end()) continue;
        needs.sub_path |= !mount.sub_path().empty() || !mount.sub_path_expr().empty();
        needs.bidirectional |= mount.mount_propagation() == "Bidirectional";
        needs.writes |= !mount.read_only();
      }
    }
  }
  return needs;
}

std::string FindReasonForHostMount(const api::Pod& pod, const PodNeeds& needs,
                                   const volume::VolumePlugin::Deferral& volume,
                                   bool secrets_allowed, const HandlerOffer& offer) {
  if (!volume.why_not.empty()) return volume.why_not;
  if (volume.secrets && !secrets_allowed) {
    return fmt::format(
        "its driver gets secrets, which could be written to the sandbox's files on disk; "
        "annotation '{}' of the StorageClass allows it",
        api::kAllowSecretsAnnotation);
  }
  if (needs.bidirectional) {
    return "a container asks for mountPropagation Bidirectional, but the host does not see mounts "
           "that are made in a sandbox";
  }
  const bool on_root_mismatch = pod.fs_group_change_policy() == "OnRootMismatch";
  if (volume.fs_group && !offer.Has(on_root_mismatch ? Rpc::FS_GROUP_CHANGE_POLICY_ROOT_MISMATCH
                                                     : Rpc::FS_GROUP_CHANGE_POLICY_ALWAYS)) {
    return fmt::format(
        "the pod has an fsGroup with policy {}, which the runtime handler does not "
        "apply",
        on_root_mismatch ? "OnRootMismatch" : "Always");
  }
  if (needs.sub_path && !offer.Has(Rpc::SUBPATH)) {
    return "a container uses a subPath of it, which the runtime handler does not support";
  }
  if (volume.selinux_on_mount && !offer.Has(Rpc::SELINUX_RELABEL_ON_MOUNT)) {
    return "the pod's SELinux label must be set by a mount option, which the runtime handler does "
           "not support";
  }
  if (volume.selinux_relabel && !offer.Has(Rpc::SELINUX_RELABEL)) {
    return "its files must get the pod's SELinux label, which the runtime handler does not "
           "support";
  }
  if (offer.file_systems.empty()) return "the runtime handler mounts no file system";
  return "";
}

bool AllowsParallelMounts(std::string_view fs_type) {
  if (fs_type.starts_with(kFuse)) fs_type.remove_prefix(kFuse.size());
  return std::ranges::find(kParallel, fs_type) != std::end(kParallel);
}

}  // namespace berth::node
