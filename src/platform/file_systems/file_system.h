// File systems on block devices: one implementation per kind (fs_ext4.cc, fs_xfs.cc, fs_btrfs.cc),
// all with the same verbs, and the probe that guards Format.
//
// Rule: never format a device that may hold data. Callers use FormatIfBlank; FileSystem::Format
// alone is only for devices whose content the caller made a moment ago. Thread-safe for different
// devices. DEADLINE_EXCEEDED from any function: the outcome is unknown.
#pragma once

#include <sys/types.h>

#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "platform/mounts/mount_paths.h"
#include "platform/processes/exec.h"

namespace berth::platform {

// The bytes of a device that begin at its file system's superblock_offset().
using SuperblockBytes = std::array<char, 2048>;

// What a device holds, as libblkid names it.
struct Signature {
  std::string
      type;  // "ext4", "crypto_LUKS", "LVM2_member", "swap"; "gpt", "dos" for partition tables
  std::string uuid;   // empty if it has none
  std::string usage;  // "filesystem", "raid", "crypto", "other", "partition table"
  // The probe reads it along, so that no further child has to. All zeros if the type is none of
  // FindFileSystem.
  SuperblockBytes superblock = {};
};

// A full probe of superblocks and partition tables, in a child process, because the device may have
// died; nullopt: no signature of any kind. FAILED_PRECONDITION: several that contradict each other.
// DEADLINE_EXCEEDED: the device does not answer.
base::StatusOr<std::optional<Signature>> ProbeSignature(const std::string& device);

// Makes the process that forks those children. For a program that probes often: call it before it
// has threads and much memory (processes/fork_template.h). Else the first probe does it.
void PrepareProbes();

struct FormatOptions {
  std::string label;               // cut to the length that the file system can hold
  std::string uuid;                // empty: random
  std::vector<std::string> extra;  // further arguments for mkfs, from a StorageClass
  bool force = false;              // mkfs overwrites a file system that it finds there
  std::chrono::milliseconds timeout{std::chrono::minutes(5)};
};

enum class CheckDepth {
  kQuick,  // cheap enough for every mount: replays a journal, repairs what is safe
  kFull,   // reads all metadata, changes nothing
};

class FileSystem {
 public:
  virtual ~FileSystem() = default;

  virtual std::string_view type() const = 0;  // as in Signature::type and mount(2)
  virtual uint64_t min_bytes() const = 0;     // smallest device that Format accepts

  // OK: the kernel and this node can make and mount it. FAILED_PRECONDITION: the kernel's driver or
  // the utility is missing, as the message says.
  base::Status IsSupported(Exec& exec) const;

  // Makes an empty file system, without a check of what the device holds (FormatIfBlank checks).
  virtual base::Status Format(Exec& exec, const std::string& device,
                              const FormatOptions& options) const = 0;

  // Checks an unmounted device. DATA_LOSS: damaged beyond safe repair; the message quotes the
  // checker.
  virtual base::Status Check(Exec& exec, const std::string& device, CheckDepth depth) const = 0;

  // Whether a quick check would find nothing to do, by the superblock.
  virtual bool NeedsNoQuickCheck(const SuperblockBytes& superblock) const = 0;

  // The offset on the device at which the superblock is read, in bytes.
  virtual off_t superblock_offset() const = 0;
  // Returns how many bytes of the device the file system uses, by its superblock.
  virtual uint64_t ComputeUsedBytes(const SuperblockBytes& superblock) const = 0;

  // The mount options that a read-only device needs besides the user's, because its journal cannot
  // be replayed.
  virtual std::vector<std::string> ReadOnlyDeviceOptions() const = 0;

  // The mount options with which the kernel mounts a copy that still has the UUID of its original
  // while the original is mounted on the same machine. btrfs has none.
  virtual std::vector<std::string> CopyOptions() const { return {}; }

  // Grows to the size of the device. `mount_point` is where it is mounted; empty: it is not
  // mounted. OK if it has that size already. PERMISSION_DENIED: as for GrowMounted.
  virtual base::Status Resize(Exec& exec, const std::string& device,
                              const MountPoint& mount_point) const = 0;

  // Grows a mounted file system to the size of its device, by a descriptor of its root (O_PATH is
  // enough). It may be mounted in another mount namespace. OK if it has that size already.
  // PERMISSION_DENIED: the kernel requires a capability that this process lacks.
  virtual base::Status GrowMounted(int root, const std::string& device) const = 0;

  // Gives an unmounted file system, which is a copy of another one, a new random UUID. xfs and
  // btrfs may be mounted for it for a moment, which replays their log.
  virtual base::Status NewUuid(Exec& exec, const std::string& device) const = 0;

 protected:
  virtual std::string_view mkfs() const = 0;  // the utility's name
};

// "ext4", "xfs" or "btrfs"; nullptr for others. Static life time.
const FileSystem* FindFileSystem(std::string_view type);

// Formats a device on which a full probe finds nothing and whose first and last MiB read as zeros.
// A device that holds a file system of `type` already is OK and left as it is. FAILED_PRECONDITION:
// it holds anything else, which the message names. INVALID_ARGUMENT: `type` is unknown, or the
// device is too small.
base::Status FormatIfBlank(Exec& exec, const std::string& device, std::string_view type,
                           const FormatOptions& options);

}  // namespace berth::platform
