// Gives a volume's content to a pod's fsGroup.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

#include "base/status.h"

namespace berth::platform {

struct FsGroupOptions {
  gid_t group = 0;
  // fsGroupChangePolicy OnRootMismatch: a root folder that is right already stands for the whole
  // tree. The root is changed last, so that a walk that was cut off is seen.
  bool only_on_root_mismatch = false;
  bool read_only = false;           // the pod may read only: r--r----- instead of rw-rw----
  std::function<bool()> cancelled;  // asked for each folder; may be empty
};

// Sets the group of everything below `root` and of itself, and adds rw-rw---- to files, rwxrwx---
// and setgid to folders. Symlinks get the group and are not followed; other mounts inside are left
// alone. CANCELLED: partly done; RESOURCE_EXHAUSTED: folders nested more than 1,000 deep.
base::Status ApplyFsGroup(const std::string& root, const FsGroupOptions& options);

}  // namespace berth::platform
