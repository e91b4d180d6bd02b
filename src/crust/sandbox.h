// The interface of a sandbox in which volumes are mounted. There are two kinds: a mount namespace
// on this host (namespace_sandbox.h), and a virtual machine (machine/vm_sandbox.h).
//
// The other parts of this folder (service, records, config.json) use only this interface. Not
// thread-safe: the handler calls one sandbox from one thread at a time. Every call that may block
// in the kernel has a deadline. After DEADLINE_EXCEEDED the outcome is unknown, and the call can be
// repeated, because each call finds what an earlier one did.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "base/unique_fd.h"
#include "crust/mount_plan.h"
#include "platform/walks/usage.h"

namespace berth::crust {

struct VolumeStats {
  std::optional<platform::FileSystemUsage> usage;  // none: it could not be read
  bool abnormal = false;
  std::string condition;  // a text for people: why it is abnormal, or that the file system answers
};

// A container's mount of a volume or of a path in it. It is in no mount namespace yet.
struct Graft {
  base::UniqueFd mount;
  bool folder = true;  // false: the mount is of a file, or a socket or FIFO
};

// Facts about a publish that a sandbox cannot find by itself. `alone` is called on other threads,
// one at a time, while many files are given to a group (fsGroup). `progress` may be empty.
struct PublishContext {
  // Another sandbox has the same block device mounted for writing, so a read-only mount may use
  // that file system. If false, a device that is busy has another user, and the publish fails.
  bool shared = false;
  // No earlier call can have placed a volume of that name in the sandbox, so PublishVolume does not
  // search for it.
  bool absent = false;
  // Whether no other sandbox uses the device or is about to use it.
  std::function<bool()> alone;
  // Whether the walk over files must stop.
  std::function<bool()> cancelled;
  // Called from time to time with the number of files and folders that are done.
  std::function<void(uint64_t done)> progress;
};

class GuestContainers;

class Sandbox {
 public:
  virtual ~Sandbox() = default;

  // The containers of the sandbox, if they run in a kernel of its own; nullptr: they run on the
  // host, and get grafts (MakeGraft).
  virtual GuestContainers* containers() { return nullptr; }

  // Carries out the plan's checks and steps. OK if the sandbox has a volume of that name on the
  // plan's device already. FAILED_PRECONDITION: a check failed, the device is in use, or the
  // sandbox has another volume of that name. Other errors come from the kernel or the mount
  // utility.
  virtual base::Status PublishVolume(const MountPlan& plan, const PublishContext& context) = 0;

  // Unmounts the volume in the sandbox. OK if it is not mounted there. Containers that have it keep
  // it.
  virtual base::Status UnpublishVolume(const MountPlan& plan) = 0;

  // Reads the usage of the volume and checks whether its file system answers and can be written.
  // NOT_FOUND: it is not mounted in the sandbox.
  virtual base::StatusOr<VolumeStats> ReadStats(const MountPlan& plan) = 0;

  // Grows the file system to its device's size, and returns its new size in bytes.
  // FAILED_PRECONDITION: it can never grow while it is mounted. UNAVAILABLE: an earlier resize that
  // timed out still runs.
  virtual base::StatusOr<int64_t> ExpandVolume(const MountPlan& plan) = 0;

  // Returns a container's mount of the volume, or of `sub_path` in it, which is a relative path
  // without "..". Makes the folders of `sub_path` that are missing. FAILED_PRECONDITION: the volume
  // is not mounted in the sandbox any more. PERMISSION_DENIED: a symlink leads out of the volume,
  // or `sub_path` is a device or a symlink.
  virtual base::StatusOr<Graft> MakeGraft(const MountPlan& plan, const std::string& sub_path) = 0;

  // Ends a sandbox of its own kernel at once, because that kernel does not unmount: its volumes are
  // unmounted and their devices free, and what it had not written is lost. The sandbox cannot be
  // used any more, only be removed. UNIMPLEMENTED: the sandbox has the host's kernel.
  virtual base::Status ForceEnd() {
    return base::Error(base::StatusCode::kUnimplemented, "the sandbox has the host's kernel");
  }

  // Removes the sandbox with its mounts. OK if it is removed already.
  virtual base::Status RemoveSandbox() = 0;
};

// Makes sandboxes of one kind.
class SandboxKind {
 public:
  virtual ~SandboxKind() = default;
  // Opens the sandbox with this id if it exists from before a restart of the handler; else makes
  // it.
  virtual base::StatusOr<std::unique_ptr<Sandbox>> OpenSandbox(const std::string& id) = 0;
};

}  // namespace berth::crust
