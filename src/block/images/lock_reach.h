// Says what the lock of a file proves about other nodes, by the kind and the options of the mount
// that holds the file. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "platform/mounts/mounter.h"

namespace berth::block {

enum class LockReach {
  kNowhere,     // a lock stays on the node that took it, although other nodes see the files
  kOneMachine,  // no other machine sees the files, so this kernel knows every lock of them
  kAdvisory,    // nodes may see each other's locks, but one that lost its lock may go on writing
  kFencing,     // nodes may see each other's locks, and one that lost its lock cannot write
};

// Whether nodes do see each other's locks is not known by a mount's options alone: that is found by
// the handshake of lock_handshake.h.
struct LockSupport {
  LockReach reach = LockReach::kNowhere;
  std::string why;  // for people: the reason of kNowhere and kAdvisory, and what to do
};

// When a dead node's lock lapses on a mount of this kind, for people; "": it is not known.
std::string DescribeLapse(const platform::MountEntry& mount);

// `retakes_lost_locks`: the kernel's NFS client locks a file again after it lost the lock
// (nfs.recover_lost_locks), and then continues to write.
LockSupport JudgeLocks(const platform::MountEntry& mount, bool retakes_lost_locks);

// As JudgeLocks, for a file system whose mount is not in this process's mount table, which happens
// in a chroot; `magic` is its f_type of statfs(2).
LockSupport JudgeLocksByMagic(int64_t magic);

}  // namespace berth::block
