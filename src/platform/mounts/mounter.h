// The mount table and the calls that change it.
//
// Mount state is read from /proc/self/mountinfo only, never by stat of a mount point (which may
// hang). Calls that can block in the kernel run in a child process with a deadline (child.h).
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace berth::platform {

// One line of mountinfo, unescaped; proc(5).
struct MountEntry {
  uint64_t id = 0;
  uint64_t parent_id = 0;
  uint32_t major = 0;
  uint32_t minor = 0;
  std::string root;  // of the mount within its file system: "/" or, for a bind, "/sub/folder"
  std::string mount_point;               // absolute
  std::vector<std::string> options;      // of the mount: "ro", "relatime", ...
  std::vector<std::string> propagation;  // "shared:1", "master:2", ...; empty: private
  std::string fs_type;
  std::string source;                      // "/dev/loop3", "tmpfs", ...
  std::vector<std::string> super_options;  // of the file system
  bool read_only() const;
};

// Parses the text of a mountinfo file. INTERNAL: a line cannot be parsed.
base::StatusOr<std::vector<MountEntry>> ParseMountInfo(std::string_view text);

// The largest mount table that is read, in bytes.
inline constexpr size_t kMaxMountTable = 64 << 20;

// Returns `path` as the mount table has it: without symlinks in all but its last part. The last
// part is not resolved, because a file system that is mounted there could hang. NOT_FOUND: the
// folder that holds the last part does not exist.
base::StatusOr<std::string> ResolveMountPoint(const std::string& path);

// Reads the mount table at `path`, which is a /proc/PID/mountinfo. NOT_FOUND: no such process.
// RESOURCE_EXHAUSTED: it is larger than kMaxMountTable.
base::StatusOr<std::vector<MountEntry>> ReadMountTable(const std::string& path);

struct MountRequest {
  std::string source;
  std::string target;                // absolute; it exists, and its last part is no symlink
  std::string fs_type;               // empty for a bind, a remount or a change of the propagation
  std::vector<std::string> options;  // as for mount(8) -o: flags are recognised, the rest goes to
                                     // the file system; "bind", "rbind", "ro", "rshared", ... too
  bool one_device = false;           // refuse a btrfs that has other devices besides `source`
};

class Mounter {
 public:
  virtual ~Mounter() = default;

  // Reads the mount table of this process's mount namespace.
  virtual base::StatusOr<std::vector<MountEntry>> List() = 0;

  // Mounts. A bind has its options, such as "ro", before it can be seen, if the kernel has
  // mount_setattr(2); else it is bound first and changed afterwards. INVALID_ARGUMENT: the target
  // is not absolute, the type is missing, or the kernel says so. FAILED_PRECONDITION: the kernel
  // mounted a btrfs of another device (btrfs_devices.h), which was unmounted again.
  // DEADLINE_EXCEEDED, after 30 s: the outcome is unknown.
  virtual base::Status Mount(const MountRequest& request) = 0;

  // Unmounts the top mount at `target`; OK if nothing is mounted there. FAILED_PRECONDITION: busy.
  // DEADLINE_EXCEEDED, after ten seconds: the outcome is unknown.
  virtual base::Status Unmount(std::string_view target) = 0;
  // As Unmount, but detaches the mount from the tree at once (MNT_DETACH), even while it is in use.
  virtual base::Status UnmountLazy(std::string_view target) = 0;

  // Whether no process serves this mount (FUSE) any more, so that every request to it fails at once
  // and for good. A child asks the mount and waits two seconds at most; a mount that does not
  // answer is not dead.
  virtual bool IsDead(const MountEntry& /*mount*/) { return false; }

  // Makes `folder` a shared mount, and first binds it onto itself if it is no mount point, because
  // mount propagation to and from containers needs this. Idempotent.
  virtual base::Status MakeShared(std::string_view folder) = 0;
};

// The Mounter of this process's mount namespace. Thread-safe.
std::unique_ptr<Mounter> NewMounter();

// The topmost mount at exactly `target`, or nullptr. Mount points are compared as text: `target` is
// absolute and without symlinks.
const MountEntry* FindMount(const std::vector<MountEntry>& table, std::string_view target);

// Whether `entry` of `table` is a folder bound onto itself, as by MakeShared: the mount shows the
// folder that its parent mount has at the same path.
bool IsBoundOntoItself(const std::vector<MountEntry>& table, const MountEntry& entry);

// The options of mount(8) as mount(2) takes them.
struct ParsedOptions {
  unsigned long flags = 0;        // MS_RDONLY, MS_BIND, ...
  unsigned long propagation = 0;  // MS_SHARED, ..., perhaps with MS_REC; 0: unchanged
  std::string data;               // the options of the file system, joined by commas
};
// Each of `options` may hold several options with commas. Options that are for mount(8) alone
// ("nofail", "x-...") are dropped.
ParsedOptions ParseMountOptions(const std::vector<std::string>& options);

}  // namespace berth::platform
