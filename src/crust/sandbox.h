// The interface of a sandbox for which volumes are mounted. The one kind now is a mount namespace
// on this host (namespace_sandbox.h); a guest may follow.
//
// The other parts of this folder (service, records, config.json) use only this interface. Not
// thread-safe: the handler calls one sandbox from one thread at a time. Every call that may block
// in the kernel has a deadline; DEADLINE_EXCEEDED: the outcome is unknown; a repeated call finds
// it.
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
  std::string condition;  // why, or that all is well
};

// What a container gets for a volume: a mount that is in no mount namespace yet.
struct Graft {
  base::UniqueFd mount;
  bool folder = true;
};

// Facts about a publish that a sandbox cannot find by itself. While many files are given to a
// group, `alone` is called on other threads, one at a time. `progress` may be empty.
struct PublishContext {
  // Another sandbox has the same block device mounted for writing, so a read-only mount may use
  // that file system. If false, a busy device belongs to somebody else and is left alone.
  bool shared = false;
  // No earlier try can have put a volume of that name there, so Publish need not look.
  bool absent = false;
  std::function<bool()> alone;  // no other sandbox has that device, or is about to
  std::function<bool()> cancelled;
  std::function<void(uint64_t done)> progress;  // files and folders so far, now and then
};

class Sandbox {
 public:
  virtual ~Sandbox() = default;

  // Carries the plan out. OK if a volume of that name on the plan's device is there already.
  virtual base::Status Publish(const MountPlan& plan, const PublishContext& context) = 0;

  // Takes the volume off. OK if it is not there. Containers that have it keep it.
  virtual base::Status Unpublish(const MountPlan& plan) = 0;

  virtual base::StatusOr<VolumeStats> Stats(const MountPlan& plan) = 0;

  // Grows the file system to its device's size, and gives its size after that. FAILED_PRECONDITION:
  // it can never grow while it is mounted.
  virtual base::StatusOr<int64_t> Expand(const MountPlan& plan) = 0;

  // Gives a container's mount of the volume, or of `sub_path` in it, which is relative and without
  // "..". Makes missing folders. PERMISSION_DENIED: a symlink leads out of the volume, or it is a
  // device.
  virtual base::StatusOr<Graft> ForContainer(const MountPlan& plan,
                                             const std::string& sub_path) = 0;

  // Removes all that is in the sandbox. Idempotent.
  virtual base::Status End() = 0;
};

// Makes sandboxes of one kind.
class SandboxKind {
 public:
  virtual ~SandboxKind() = default;
  // Opens the sandbox of that id, which may exist from before a restart of the handler, or makes
  // it.
  virtual base::StatusOr<std::unique_ptr<Sandbox>> Open(const std::string& id) = 0;
};

}  // namespace berth::crust
