// A question about every file of a file system, put to its inodes and not to its names.
#pragma once

#include <functional>
#include <optional>

#include "platform/walks/ext4_inodes.h"

namespace berth::platform {

// Whether `holds` is true of every inode in use of the file system whose root folder the descriptor
// `root` holds (O_PATH will do). The inodes are read in bulk, in the order in which they are
// stored: many times as fast as a look at each name, and without a seek for each when nothing is
// cached. ext4: from the tables on its device; xfs: by XFS_IOC_BULKSTAT.
//
// nullopt: it is not known, and a walk has to say. So it is for other file systems, for a folder
// inside one, where the device cannot be opened here, where ids are mapped by the mount, where the
// tables would take longer than the names, or if `cancelled` (may be empty) says so.
std::optional<bool> HoldsForEveryInode(int root,
                                       const std::function<bool(const InodeOwner&)>& holds,
                                       const std::function<bool()>& cancelled);

}  // namespace berth::platform
