// Gives a volume's content to a pod's fsGroup.
//
// The walk runs on several threads and holds every folder by descriptor: what is renamed, swapped
// for a symlink or mounted over under its feet leads it nowhere else. What is right already costs
// one look and no write; where all of it is, the inodes are asked in bulk (inode_scan.h).
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
  // fsGroupChangePolicy OnRootMismatch: a root folder that is right already stands for the whole
  // tree. The root is changed last, so that a walk that was cut off is seen.
  bool only_on_root_mismatch = false;
  bool read_only = false;  // the pod may read only: r--r----- instead of rw-rw----
  // Nobody else has the volume meanwhile, as when it was mounted a moment ago: then a name stays
  // with its file, and permissions need no descriptor of it. Otherwise somebody who may rename
  // could have one file's permissions given to another.
  bool exclusive = false;
  // Asked before each change that counts on it, on any of the walk's threads but on one at a time,
  // where somebody may come to have the volume meanwhile; may be empty.
  std::function<bool()> still_exclusive;
  // Asked many times a second, on the calling thread; may be empty.
  std::function<bool()> cancelled;
  // Told how many files and folders have been looked at, after the interval and then again after
  // each, on the calling thread; may be empty.
  std::function<void(uint64_t done)> progress;
  std::chrono::milliseconds progress_interval{std::chrono::seconds(30)};
  // How long the file system may answer nothing before the walk is given up.
  std::chrono::milliseconds patience{std::chrono::minutes(2)};
};

// Sets the group of everything below `root` and of itself, and adds rw-rw---- to files, rwxrwx---
// and setgid to folders. Symlinks get the group and are not followed; other mounts inside are left
// alone. CANCELLED: partly done; RESOURCE_EXHAUSTED: folders nested more than 1,000 deep.
// DEADLINE_EXCEEDED, UNAVAILABLE: the file system does not answer (RunLongWork).
base::Status ApplyFsGroup(const std::string& root, const FsGroupOptions& options);

// As above, of the folder that a descriptor holds (O_PATH will do), in whatever mount namespace.
// `name` is what messages call it.
base::Status ApplyFsGroup(int root, const std::string& name, const FsGroupOptions& options);

}  // namespace berth::platform
