// Opens a block device of the host to pass it on to a guest.
#pragma once

#include "base/status.h"
#include "base/unique_fd.h"
#include "crust/mount_plan.h"

namespace berth::crust {

// A volume with a file system is claimed (O_EXCL), so that nobody can mount it on the host or in
// another guest while this one has it. A volume in block mode is not, because pods may share it.
enum class Claim { kExclusive, kShared };

// FAILED_PRECONDITION: the path leads to another device by now, or the device is in use.
base::StatusOr<base::UniqueFd> OpenForGuest(const Device& device, bool read_only, Claim claim);

}  // namespace berth::crust
