// The empty file system that is mounted on the host at the target path of a pod's volume, as long
// as the volume is published. The kubelet sees a mount there, and makes the folders of subPaths in
// it (containers/kubelet_sub_path.h). No container gets it.
//
// It is a small tmpfs without data, so nothing is lost when it is unmounted. Thread-safe for
// different target paths.
#pragma once

#include "base/status.h"
#include "platform/mounts/mount_paths.h"
#include "platform/mounts/mounter.h"
#include "platform/mounts/placeholder.h"

namespace berth::crust {

// Mounts a placeholder at `target`, whose folder is made if it is missing. OK if one is mounted
// there. FAILED_PRECONDITION: something else is mounted there. DEADLINE_EXCEEDED: the outcome is
// unknown.
base::Status MakePlaceholder(platform::Mounter& mounter, const platform::TargetPath& target);

// Unmounts the placeholder at `target`. OK if there is none. Another mount stays as it is.
// FAILED_PRECONDITION: it is in use.
base::Status RemovePlaceholder(platform::Mounter& mounter, const platform::TargetPath& target);

}  // namespace berth::crust
