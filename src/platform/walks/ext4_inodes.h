// Reads the inode tables of a mounted ext4 from its device.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>

#include "base/status.h"

namespace berth::platform {

inline constexpr uint64_t kExt4RootInode = 2;

struct InodeOwner {
  uint64_t number = 0;
  mode_t mode = 0;  // with the type
  gid_t group = 0;
};

// Calls `visit` with each inode that a folder may name, in order, until it returns false. `device`
// is a descriptor of the block device, open for reading: it shares its page cache with the mounted
// file system, so that the present state is read. RESOURCE_EXHAUSTED, before the first visit: the
// tables hold more than `most` inodes, used and unused, that would have to be read. UNIMPLEMENTED:
// the layout is not known.
base::Status ForEachExt4Inode(int device, uint64_t most,
                              const std::function<bool(const InodeOwner&)>& visit);

}  // namespace berth::platform
