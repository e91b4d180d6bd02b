// Finds the mounts that keep a block device busy, in any mount namespace and not only in this one.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace berth::platform {

struct MountHolder {
  // Some of the processes in that namespace, at least one. Its files may have to be opened by
  // another one, because a process in execve can keep everybody from reading it.
  std::vector<pid_t> pids;
  std::string name;       // of the first process
  std::string container;  // the runtime's id of the first process's container; empty: none known
  std::string where;      // the mount point, as that namespace sees it
  bool here = false;      // it is this process's own namespace
};

// Finds one mount of the block device `device` in each mount namespace that has one. Only root sees
// the namespaces of other users. Mounts of btrfs are not found, because the mount table shows
// another device number for them. What cannot be read is left out. No process can delay the search.
std::vector<MountHolder> FindMountHolders(dev_t device);

// "; mounted at '/x' in the mount namespace of process 42 'runc' of container 6f1b...", or "" if no
// mount is found.
std::string DescribeMountHolders(dev_t device);

}  // namespace berth::platform
