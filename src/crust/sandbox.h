// A sandbox that volumes are mounted for, of whatever kind: a mount namespace on this host
// (namespace_sandbox.h), and one day a guest.
//
// The room's other parts (service, records, config.json) know only this. Not thread-safe: the
// handler calls one sandbox from one thread at a time. Every call that may block in the kernel has
// a deadline; DEADLINE_EXCEEDED: what was done is unknown, and the same call again finds out.
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
  std::optional<platform::FileSystemUsage> usage;  // none: it could not be told
  bool abnormal = false;
  std::string condition;  // why, or that all is well
};

// What a container gets of a volume: a mount that is in no mount namespace yet.
struct Graft {
  base::UniqueFd mount;
  bool folder = true;
};

// What a sandbox cannot know of a publish by itself. `alone` is asked on other threads, one at a
// time, while many files are given to a group; `progress` may be empty.
struct PublishContext {
  // Another sandbox has the same block device mounted for writing: a read-only mount of it may be
  // one of that file system. Otherwise a busy device is somebody else's, and is left alone.
  bool shared = false;
  // No earlier try can have put a volume of that name there: nobody needs to look.
  bool absent = false;
  std::function<bool()> alone;  // no other sandbox has that device, or is about to
  std::function<bool()> cancelled;
  std::function<void(uint64_t done)> progress;  // files and folders so far, now and then
};

class Sandbox {
 public:
  virtual ~Sandbox() = default;

  // Carries the plan out. A volume of that name which is there already, on the plan's device, is
  // OK.
  virtual base::Status Publish(const MountPlan& plan, const PublishContext& context) = 0;

  // Takes it off; one that is not there is OK. Containers that have it keep it.
  virtual base::Status Unpublish(const MountPlan& plan) = 0;

  virtual base::StatusOr<VolumeStats> Stats(const MountPlan& plan) = 0;

  // Grows the file system to its device's size; gives the size that it then has.
  // FAILED_PRECONDITION: it can never grow while it is mounted.
  virtual base::StatusOr<int64_t> Expand(const MountPlan& plan) = 0;

  // The volume for a container, or what is at `sub_path` in it: relative, without ".."; missing
  // folders are made. PERMISSION_DENIED: a symlink leads out of the volume, or it is a device.
  virtual base::StatusOr<Graft> ForContainer(const MountPlan& plan,
                                             const std::string& sub_path) = 0;

  // Lets go of all that is in it. Idempotent.
  virtual base::Status End() = 0;
};

// Makes sandboxes of one kind.
class SandboxKind {
 public:
  virtual ~SandboxKind() = default;
  // The sandbox of that id: found, as after a restart of the handler, or made.
  virtual base::StatusOr<std::unique_ptr<Sandbox>> Open(const std::string& id) = 0;
};

}  // namespace berth::crust
