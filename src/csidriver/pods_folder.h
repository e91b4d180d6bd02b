// Finds out whether the folder of a pod is gone for good. If it is, the shipped driver knows that
// nobody will unpublish the pod's inline volumes.
//
// A path that is missing proves nothing by itself: the kubelet's folder may be a file system that
// is not mounted yet, and the folder below it looks empty then. So the folder of all pods is
// recorded when a volume is made, and counts as present only while it is the same one. Its inode
// and its time of birth identify it, because a reboot changes neither.
#pragma once

#include <string>
#include <string_view>

#include "platform/mounts/mount_paths.h"

namespace berth::csidriver {

// Returns the identity of the folder of all pods, which is "KUBELET/pods" for the target path
// "KUBELET/pods/UID/volumes/kubernetes.io~csi/NAME/mount". Empty: the target has another form, or
// the folder cannot be read.
std::string IdentifyPodsFolder(const platform::TargetPath& target);

enum class PodFolder {
  kThere,
  kGone,     // the kubelet has removed it
  kUnknown,  // it cannot be seen, because the folder of all pods is not the recorded one
};

// Looks for the folder that the kubelet makes before it publishes a volume at `target`, and removes
// after it has unpublished the volume. `pods_identity` is what IdentifyPodsFolder returned when the
// volume was made.
PodFolder FindPodFolder(const platform::TargetPath& target, std::string_view pods_identity);

}  // namespace berth::csidriver
