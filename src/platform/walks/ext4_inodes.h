// The inode tables of a mounted ext4, read from its device.
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

// Calls `visit` with each inode that a folder may name, in order, until it gives false. `device` is
// a descriptor of the block device, open for reading: its pages are those that the mounted file
// system works on, so that what is read is what it has now.
// RESOURCE_EXHAUSTED, before anything is visited: the tables hold more than `most` inodes, used and
// unused, that have to be read. UNIMPLEMENTED: a layout that is not known.
base::Status ForEachExt4Inode(int device, uint64_t most,
                              const std::function<bool(const InodeOwner&)>& visit);

}  // namespace berth::platform
