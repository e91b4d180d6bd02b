// Answers a question about every file of a file system by reading its inodes instead of its names.
#pragma once

#include <functional>
#include <optional>

#include "platform/walks/ext4_inodes.h"

namespace berth::platform {

// Whether `holds` is true for every inode in use of the file system whose root folder is held by
// the descriptor `root` (O_PATH is enough). The inodes are read in bulk, in the order in which they
// are stored. This is many times as fast as a stat of each name, and needs no seek for each inode
// if nothing is cached. For ext4 they come from the tables on its device, for xfs from
// XFS_IOC_BULKSTAT.
//
// nullopt: not known, and the caller must walk the names. This is so for other file systems, for a
// folder that is not the root of its file system, if the device cannot be opened in this process,
// if the mount maps ids, if the tables take longer to read than the names, or if `cancelled` (may
// be empty) returns true.
std::optional<bool> HoldsForEveryInode(int root,
                                       const std::function<bool(const InodeOwner&)>& holds,
                                       const std::function<bool()>& cancelled);

}  // namespace berth::platform
