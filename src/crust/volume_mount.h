// Mounts a volume outside of all mount namespaces, so that it is in no mount table.
#pragma once

#include "base/status.h"
#include "base/unique_fd.h"
#include "crust/mount_plan.h"

namespace berth::crust {

struct VolumeMount {
  base::UniqueFd root;  // closing it unmounts, unless the mount was moved somewhere
  // Nobody else had the device open or mounted before.
  bool exclusive = false;
};

// Carries out the plan's checks and its mount, in a child with a deadline of two minutes (a journal
// may be long). NOT_FOUND, FAILED_PRECONDITION: a check failed, or the device is in use. The
// message includes what the kernel says about the file system. `shared` is that of PublishContext.
base::StatusOr<VolumeMount> MountVolume(const MountPlan& plan, bool shared);

}  // namespace berth::crust
