// The pod that stands for a HostMount. The volume manager knows only pods, so host_mounts.h gives
// it one for each HostMount; that pod is never run, and the API does not know it.
//
// Pure.
#pragma once

#include <string>
#include <string_view>

#include "api/kinds/kinds.h"
#include "base/event_sink.h"

namespace berth::node {

inline constexpr std::string_view kHostMountPodPrefix = "hostmount-";
// The annotation of such a pod with the HostMount's own uid. The pod's apiVersion, kind, namespace
// and name are the HostMount's.
inline constexpr std::string_view kHostMountUidAnnotation = "storage.berth.dev/host-mount-uid";

// The uid of the pod that stands for a HostMount: "hostmount-" and the HostMount's uid.
inline std::string HostMountPodUid(std::string_view host_mount_uid) {
  return fmt::format("{}{}", kHostMountPodPrefix, host_mount_uid);
}
inline bool IsHostMountPod(std::string_view pod_uid) {
  return pod_uid.starts_with(kHostMountPodPrefix);
}

// The object that events about a pod go to; for the pod of a HostMount that is the HostMount.
inline base::ObjectReference EventTarget(const api::Pod& pod) {
  base::ObjectReference target = pod.reference();
  // The API knows the HostMount by its own uid, and not by the pod's.
  if (IsHostMountPod(target.uid)) target.uid = pod.annotation(kHostMountUidAnnotation);
  return target;
}

}  // namespace berth::node
