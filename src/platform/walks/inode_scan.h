// Answers a question about every file of a file system by reading its inodes instead of its names.
#pragma once

#include <functional>
#include <optional>

#include "platform/walks/ext4_inodes.h"

namespace berth::platform {

// Whether `holds` is true for every inode in use of the file system whose root folder is held by
// the descriptor `root` (O_PATH is enough). The inodes are read in bulk, in the order in which they
// are stored: this is many times as fast as a look at each name, and needs no seek for each when
// nothing is cached. For ext4 they come from the tables on its device, for xfs from
// XFS_IOC_BULKSTAT.
//
// nullopt: it is not known, and a walk must find out. This is so for other file systems, for a
// folder inside one, if the device cannot be opened here, if the mount maps ids, if reading the
// tables would take longer than reading the names, or if `cancelled` (may be empty) says so.
std::optional<bool> HoldsForEveryInode(int root,
                                       const std::function<bool(const InodeOwner&)>& holds,
                                       const std::function<bool()>& cancelled);

}  // namespace berth::platform
