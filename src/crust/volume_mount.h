// Mounts a volume outside of all mount namespaces, so that it is in no mount table.
#pragma once

#include "base/status.h"
#include "base/unique_fd.h"
#include "crust/mount_plan.h"

namespace berth::crust {

struct VolumeMount {
  base::UniqueFd root;  // closing it unmounts, unless the mount was moved somewhere
  // Nothing else had the block device mounted or open exclusively before; false for a share.
  bool exclusive = false;
};

// Carries out the plan's checks and its mount in a child process. The deadline is two minutes,
// because the replay of a journal may take long. The name of a share's server is resolved before
// that, within 30 seconds (share_address.h). NOT_FOUND: the device does not exist.
// FAILED_PRECONDITION: a check failed, or the device is in use. The message includes the kernel's
// messages about the file system. `shared` is that of PublishContext.
base::StatusOr<VolumeMount> MountVolume(const MountPlan& plan, bool shared);

}  // namespace berth::crust
