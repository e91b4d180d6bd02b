#include "block/images/lock_reach.h"

#include <linux/magic.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "base/log.h"

namespace berth::block {
namespace {

using platform::MountEntry;

constexpr auto kOneMachineTypes = std::to_array<std::string_view>(
    {"bcachefs", "btrfs",   "erofs",    "exfat",  "ext2",  "ext3",    "ext4",
     "f2fs",     "fuseblk", "jfs",      "nilfs2", "ntfs3", "overlay", "ramfs",
     "reiserfs", "rootfs",  "squashfs", "tmpfs",  "vfat",  "xfs",     "zfs"});

// Their clients keep the locks for themselves, or their servers accept every lock.
constexpr auto kLocklessTypes = std::to_array<std::string_view>(
    {"9p", "virtiofs", "vboxsf", "prl_fs", "hostfs", "fuse.vmhgfs-fuse", "fuse.sshfs", "fuse.s3fs",
     "fuse.rclone", "fuse.gcsfuse", "fuse.goofys", "fuse.mountpoint-s3", "fuse.virtiofs"});

constexpr auto kOneMachineMagics =
    std::to_array<int64_t>({BTRFS_SUPER_MAGIC, EXT4_SUPER_MAGIC, F2FS_SUPER_MAGIC,
                            OVERLAYFS_SUPER_MAGIC, RAMFS_MAGIC, TMPFS_MAGIC, XFS_SUPER_MAGIC});

template <typename List, typename Value>
bool Contains(const List& list, const Value& value) {
  return std::ranges::find(list, value) != std::end(list);
}

bool HasOption(const MountEntry& mount, std::string_view option) {
  return Contains(mount.super_options, option) || Contains(mount.options, option);
}

LockSupport Nowhere(std::string why) { return {LockReach::kNowhere, std::move(why)}; }
LockSupport Advisory(std::string why) { return {LockReach::kAdvisory, std::move(why)}; }

bool IsNfs4(const MountEntry& mount) {
  return mount.fs_type == "nfs4" ||
         std::ranges::any_of(mount.super_options, [](std::string_view option) {
           return option.starts_with("vers=4") || option.starts_with("nfsvers=4");
         });
}

LockSupport JudgeNfs(const MountEntry& mount, bool retakes_lost_locks) {
  // `local_lock=flock` concerns flock(2) alone, which images do not use.
  for (const std::string_view option : {"nolock", "local_lock=all", "local_lock=posix"}) {
    if (!HasOption(mount, option)) continue;
    return Nowhere(
        fmt::format("NFS is mounted with {}, so that no other node sees a lock of this node: mount "
                    "it with vers=4 and without nolock and local_lock",
                    option));
  }
  if (!IsNfs4(mount)) {
    return Advisory("a node that lost its lock may go on writing with NFS 3: mount it with vers=4");
  }
  if (retakes_lost_locks) {
    return Advisory(
        "the kernel locks files again after it lost their locks, and goes on writing: set the "
        "module parameter nfs.recover_lost_locks to N");
  }
  return {LockReach::kFencing, ""};
}

}  // namespace

LockSupport JudgeLocks(const MountEntry& mount, bool retakes_lost_locks) {
  const std::string& type = mount.fs_type;
  if (type == "nfs" || type == "nfs4") return JudgeNfs(mount, retakes_lost_locks);
  if (Contains(kOneMachineTypes, type)) return {LockReach::kOneMachine, ""};
  if (Contains(kLocklessTypes, type)) {
    return Nowhere(
        fmt::format("locks on {} do not reach other nodes: use NFS 4, CephFS or GFS2", type));
  }
  if (type == "cifs" || type == "smb3") {
    if (HasOption(mount, "nobrl")) {
      return Nowhere(
          "SMB is mounted with nobrl, so that no other node sees a lock of this node: mount it "
          "without nobrl");
    }
    return Advisory("a node that was cut off from an SMB server may go on writing when it returns");
  }
  if (type == "lustre" && (HasOption(mount, "localflock") || HasOption(mount, "noflock"))) {
    return Nowhere(
        "Lustre is mounted with localflock or noflock, so that no other node sees a lock of this "
        "node: mount it with flock");
  }
  if (type == "gfs2") {
    if (HasOption(mount, "lockproto=lock_nolock")) return {LockReach::kOneMachine, ""};
    if (HasOption(mount, "localflocks")) {
      return Nowhere(
          "GFS2 is mounted with localflocks, so that no other node sees a lock of this node: mount "
          "it without localflocks");
    }
    return {LockReach::kFencing, ""};
  }
  if (type == "ceph" || type == "ocfs2") return {LockReach::kFencing, ""};
  return Advisory(
      fmt::format("it is not known that {} stops the writes of a node that lost its lock", type));
}

std::string DescribeLapse(const MountEntry& mount) {
  const std::string& type = mount.fs_type;
  if (type == "nfs4" || (type == "nfs" && IsNfs4(mount))) {
    return "the NFS server drops the lock of a dead node when it has not heard of the node for "
           "the server's lease time (90 s by default)";
  }
  if (type == "nfs") {
    return "the NFS 3 server keeps the lock of a dead node until the node boots again";
  }
  if (type == "ceph" || type == "fuse.ceph-fuse" || type == "fuse.ceph") {
    return "CephFS drops the lock of a dead node when the MDS has evicted the node's client and "
           "put it on the blocklist, which it does after session_autoclose (300 s by default) of "
           "silence; to do so at once: ceph tell mds.RANK client ls, and then ceph tell mds.RANK "
           "client evict id=ID";
  }
  if (type == "gfs2" || type == "ocfs2") {
    return "the cluster drops the lock of a dead node when it has fenced the node and recovered "
           "the node's journal";
  }
  return "";
}

LockSupport JudgeLocksByMagic(int64_t magic) {
  if (Contains(kOneMachineMagics, magic)) return {LockReach::kOneMachine, ""};
  return Advisory(fmt::format(
      "its mount is not in the mount table of this process (file system {:#x})", magic));
}

}  // namespace berth::block
