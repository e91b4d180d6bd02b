// Gives a volume's content to a pod's fsGroup.
//
// The walk runs on several threads and holds every folder by descriptor: renaming, swapping for a
// symlink or mounting over during the walk cannot lead it elsewhere. A file that is right already
// costs one stat and no write. If all files may be right, their inodes are checked in bulk
// (inode_scan.h).
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "base/status.h"

namespace berth::platform {

struct FsGroupOptions {
  gid_t group = 0;
  // fsGroupChangePolicy OnRootMismatch: if the root folder is right, the whole tree counts as
  // right. The root is changed last, so that an interrupted walk is noticed.
  bool only_on_root_mismatch = false;
  bool read_only = false;  // the pod may read only: r--r----- instead of rw-rw----
  // No other process uses the volume meanwhile, for example because it was mounted a moment ago.
  // Then a name keeps its file, and permissions can be set by name, without a descriptor. Otherwise
  // a process that renames files could make one file get the permissions of another.
  bool exclusive = false;
  // Asked before each change that relies on `exclusive`, on any thread of the walk but never on two
  // at once, if other processes may get the volume meanwhile; may be empty.
  std::function<bool()> still_exclusive;
  // Asked many times a second, on the calling thread; may be empty.
  std::function<bool()> cancelled;
  // Reports how many files and folders have been looked at, first after the interval and then after
  // each further one, on the calling thread; may be empty.
  std::function<void(uint64_t done)> progress;
  std::chrono::milliseconds progress_interval{std::chrono::seconds(30)};
  // How long the file system may give no answer before the walk is given up.
  std::chrono::milliseconds patience{std::chrono::minutes(2)};
};

// Sets the group of `root` and of everything below it, and adds rw-rw---- to files, rwxrwx--- and
// setgid to folders. Symlinks get the group and are not followed; other mounts inside are left
// alone. What the file system refuses is logged and left as it is, as by a kubelet. CANCELLED:
// partly done; RESOURCE_EXHAUSTED: folders nested more than 1,000 deep. DEADLINE_EXCEEDED,
// UNAVAILABLE: the file system does not answer (RunLongWork).
base::Status ApplyFsGroup(const std::string& root, const FsGroupOptions& options);

// As above, for the folder that a descriptor holds (O_PATH is enough), which may be in another
// mount namespace. `name` is its name in messages.
base::Status ApplyFsGroup(int root, const std::string& name, const FsGroupOptions& options);

}  // namespace berth::platform
