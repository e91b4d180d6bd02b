// Finds the mounts that keep a block device busy, in any mount namespace and not only in this one.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace berth::platform {

struct MountHolder {
  pid_t pid = 0;      // one of the processes in that namespace
  std::string name;   // of the process
  std::string where;  // the mount point, as that namespace sees it
  bool here = false;  // it is this process's own namespace
};

// The mounts of the block device `device`, one per namespace; needs root to see those of other
// users.
std::vector<MountHolder> FindMountHolders(dev_t device);

// "; mounted at '/x' in the mount namespace of process 42 'runc'", or "" if no mount is found.
std::string DescribeMountHolders(dev_t device);

}  // namespace berth::platform
