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

// Finds one mount of the block device `device` in each mount namespace that has one. Only root sees
// the namespaces of other users. Mounts of btrfs are not found, because the mount table shows
// another device number for them. What cannot be read is left out.
std::vector<MountHolder> FindMountHolders(dev_t device);

// "; mounted at '/x' in the mount namespace of process 42 'runc'", or "" if no mount is found.
std::string DescribeMountHolders(dev_t device);

}  // namespace berth::platform
