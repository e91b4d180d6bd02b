#include "crust/namespace_sandbox.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <map>
#include <memory>
#include <optional>

#include "base/fault.h"
#include "base/log.h"
#include "crust/holder.h"
#include "crust/mount_namespace.h"
#include "crust/utility_mount.h"
#include "crust/volume_mount.h"
#include "platform/errno.h"
#include "platform/file_systems/file_system.h"
#include "platform/files/durable_file.h"
#include "platform/mounts/safe_path.h"
#include "platform/processes/child.h"
#include "platform/walks/ownership.h"

namespace berth::crust {
namespace {

using base::Error;
using base::Quote;
using base::Status;
using base::StatusCode;
using base::StatusOr;
using base::UniqueFd;

constexpr std::chrono::seconds kProgressInterval(5);
// A sync that takes seconds is normal under load.
constexpr std::chrono::seconds kSlowestSync(30);

class NamespaceSandbox final : public Sandbox {
 public:
  NamespaceSandbox(platform::Mounter& mounter, const UtilityMounts& utilities, std::string pin,
                   Holder holder)
      : mounter_(mounter),
        utilities_(utilities),
        pin_(std::move(pin)),
        holder_(std::move(holder)) {}

  Status Publish(const MountPlan& plan, const PublishContext& context) override {
    const std::string name(plan.name());
    if (!context.absent) {
      ASSIGN_OR_RETURN(const std::optional<dev_t> there, holder_.Find(name));
      if (there) return CheckPlaced(plan, *there);
    }
    // The volume is placed in the sandbox as the last step, so a volume that is there is complete.
    ASSIGN_OR_RETURN(const VolumeMount mount, Mount(plan, context));
    if (const auto* group = plan.Find<ApplyGroup>()) {
      if (!plan.read_only()) RETURN_IF_ERROR(Give(plan, *group, mount, context));
    }
    return holder_.PlaceMount(mount.root, name);
  }

  Status Unpublish(const MountPlan& plan) override {
    const std::string name(plan.name());
    RETURN_IF_ERROR(holder_.TakeMount(name));
    looks_.erase(name);  // the next volume of that name is another one
    return base::OkStatus();
  }

  StatusOr<VolumeStats> Stats(const MountPlan& plan) override {
    const std::string name(plan.name());
    Looks& looks = looks_[name];
    const StatusOr<Holder::Look> look =
        Once(looks.usage, [&](std::shared_ptr<void> alive) { return holder_.LookAt(name, alive); });
    if (!look.ok()) {
      if (look.status().code() == StatusCode::kNotFound) return look.status();
      const bool silent = look.status().code() == StatusCode::kDeadlineExceeded;
      return VolumeStats{.abnormal = true,
                         .condition = fmt::format("the file system {}: {}",
                                                  silent ? "does not answer" : "has failed",
                                                  base::Message(look.status()))};
    }
    VolumeStats stats{.usage = look->usage, .condition = "the file system answers"};
    if (look->read_only) {
      if (plan.read_only()) return stats;
      stats.abnormal = true;
      stats.condition = "the file system has become read-only, as it does after an error";
    } else if (std::string why = WhyNothingIsWritten(plan, looks); !why.empty()) {
      stats.abnormal = true;
      stats.condition = std::move(why);
    }
    return stats;
  }

  StatusOr<int64_t> Expand(const MountPlan& plan) override {
    const platform::FileSystem* kind = platform::FindFileSystem(plan.fs_type());
    if (kind == nullptr || !plan.device.block) {
      return Error(StatusCode::kFailedPrecondition, "a mounted {} cannot be grown", plan.fs_type());
    }
    const std::string name(plan.name());
    {
      ASSIGN_OR_RETURN(const UniqueFd root, holder_.Root(name));
      RETURN_IF_ERROR(base::FaultPoint<"crust.grow.before">());
      const Status grown = kind->GrowMounted(root.get(), plan.device.source);
      if (grown.code() == StatusCode::kPermissionDenied) {
        return Error(StatusCode::kFailedPrecondition,
                     "{}: the kernel wants CAP_SYS_RESOURCE for it, which this process may lack",
                     base::Message(grown));
      }
      if (grown.code() == StatusCode::kFailedPrecondition) {
        // The device is busy, because an earlier resize that timed out still runs.
        return Error(StatusCode::kUnavailable, "{}", base::Message(grown));
      }
      RETURN_IF_ERROR(grown);
      RETURN_IF_ERROR(base::FaultPoint<"crust.grow.after">());
    }
    ASSIGN_OR_RETURN(const Holder::Look look, holder_.LookAt(name));
    return look.usage.total_bytes;
  }

  StatusOr<Graft> ForContainer(const MountPlan& plan, const std::string& sub_path) override {
    const std::string name(plan.name());
    StatusOr<UniqueFd> clone = holder_.Clone(name, sub_path);
    if (clone.status().code() == StatusCode::kNotFound && !sub_path.empty()) {
      RETURN_IF_ERROR(MakeFolders(name, sub_path));
      clone = holder_.Clone(name, sub_path);
    }
    RETURN_IF_ERROR(clone);
    struct statx found = {};
    if (statx(clone->get(), "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &found) != 0) {
      return platform::ErrnoError(errno, "look at what the container gets");
    }
    if (!S_ISDIR(found.stx_mode) && !S_ISREG(found.stx_mode) && !S_ISSOCK(found.stx_mode) &&
        !S_ISFIFO(found.stx_mode)) {
      return Error(StatusCode::kPermissionDenied, "subPath {} is a device, or a symlink",
                   Quote(sub_path));
    }
    return Graft{.mount = *std::move(clone), .folder = S_ISDIR(found.stx_mode)};
  }

  Status End() override { return Unpin(mounter_, pin_); }

 private:
  // Looks at a volume that may still run. No new look begins while the last one runs, because
  // processes that hang in the kernel would accumulate.
  struct Looks {
    std::weak_ptr<void> usage, sync;
    std::optional<std::chrono::steady_clock::time_point> late_since;  // the sync
  };

  template <typename Look>
  static auto Once(std::weak_ptr<void>& last, Look look) -> decltype(look(nullptr)) {
    if (!IsOver(last)) {
      return Error(StatusCode::kDeadlineExceeded, "the last look at it has not come back");
    }
    const auto alive = std::make_shared<char>();
    last = alive;
    return look(alive);
  }

  static bool IsOver(const std::weak_ptr<void>& look) {
    platform::ReapDeadChildren();  // one of the dead children may be that look
    return look.expired();
  }

  // Why writes to the volume fail; "": they do not.
  std::string WhyNothingIsWritten(const MountPlan& plan, Looks& looks) const {
    const std::string name(plan.name());
    const auto now = std::chrono::steady_clock::now();
    // If a sync that timed out has ended since, it was only slow, so the time starts again. This
    // holds for block devices only: for a share the child may only have been killed.
    if (plan.device.block && IsOver(looks.sync)) looks.late_since.reset();
    const Status synced =
        Once(looks.sync, [&](std::shared_ptr<void> alive) { return holder_.Sync(name, alive); });
    if (synced.code() != StatusCode::kDeadlineExceeded) {
      looks.late_since.reset();
      return synced.ok() ? ""
                         : fmt::format("nothing can be written to the file system any more: {}",
                                       base::Message(synced));
    }
    if (!looks.late_since) looks.late_since = now;
    if (now - *looks.late_since < kSlowestSync) return "";
    return fmt::format(
        "the file system does not answer: nothing was written down for {} s",
        std::chrono::duration_cast<std::chrono::seconds>(now - *looks.late_since).count());
  }

  StatusOr<VolumeMount> Mount(const MountPlan& plan, const PublishContext& context) const {
    const auto* mount = plan.Find<MountFileSystem>();
    if (mount == nullptr || mount->utility.empty()) return MountVolume(plan, context.shared);
    // `exclusive` stays false, because others may use the share's files at the same time.
    ASSIGN_OR_RETURN(UniqueFd root, utilities_.Mount(plan, *mount));
    return VolumeMount{.root = std::move(root)};
  }

  // Checks that the volume with the plan's name in the sandbox is the one that the plan would
  // place.
  static Status CheckPlaced(const MountPlan& plan, dev_t there) {
    // btrfs has its own numbers, which belong to no device.
    if (!plan.device.block || major(there) == 0 || there == plan.device.number) {
      return base::OkStatus();
    }
    return Error(StatusCode::kFailedPrecondition,
                 "the sandbox has a volume on device {}:{} there, not on {}:{}", major(there),
                 minor(there), major(plan.device.number), minor(plan.device.number));
  }

  static Status Give(const MountPlan& plan, const ApplyGroup& group, const VolumeMount& mount,
                     const PublishContext& context) {
    RETURN_IF_ERROR(base::FaultPoint<"crust.fs_group.before">());
    return platform::ApplyFsGroup(mount.root.get(), plan.device.source,
                                  {.group = group.group,
                                   .only_on_root_mismatch = group.only_on_root_mismatch,
                                   .exclusive = mount.exclusive,
                                   .still_exclusive = context.alone,
                                   .cancelled = context.cancelled,
                                   .progress = context.progress,
                                   .progress_interval = kProgressInterval});
  }

  // Makes the folders as the kubelet does: with the mode of the volume's root.
  Status MakeFolders(const std::string& name, const std::string& sub_path) const {
    ASSIGN_OR_RETURN(const UniqueFd root, holder_.Root(name));
    struct statx found = {};
    if (statx(root.get(), "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_MODE, &found) != 0) {
      return platform::ErrnoError(errno, "look at the volume");
    }
    return platform::MakeFoldersBeneath(root.get(), sub_path, found.stx_mode & 07777).status();
  }

  platform::Mounter& mounter_;
  const UtilityMounts& utilities_;
  const std::string pin_;
  const Holder holder_;
  std::map<std::string, Looks> looks_;  // by the volume's name
};

class NamespaceSandboxes final : public SandboxKind {
 public:
  NamespaceSandboxes(platform::Mounter& mounter, UtilityMounts utilities, std::string pins)
      : mounter_(mounter), utilities_(std::move(utilities)), pins_(std::move(pins)) {}

  StatusOr<std::unique_ptr<Sandbox>> Open(const std::string& id) override {
    const std::string pin = pins_ + "/" + id;
    ASSIGN_OR_RETURN(Holder holder, Holder::Open(mounter_, pin));
    return std::make_unique<NamespaceSandbox>(mounter_, utilities_, pin, std::move(holder));
  }

 private:
  platform::Mounter& mounter_;
  const UtilityMounts utilities_;
  const std::string pins_;
};

}  // namespace

StatusOr<std::unique_ptr<SandboxKind>> NewNamespaceSandboxes(platform::Mounter& mounter,
                                                             platform::Exec& exec,
                                                             const NamespaceFolders& folders) {
  RETURN_IF_ERROR(platform::MakeFolders(folders.pins, 0700));
  RETURN_IF_ERROR(PreparePins(mounter, folders.pins));
  RETURN_IF_ERROR(RemoveEmptyPins(folders.pins));
  ASSIGN_OR_RETURN(UtilityMounts utilities,
                   UtilityMounts::Open(mounter, exec, folders.utilities, folders.kubelet));
  return std::make_unique<NamespaceSandboxes>(mounter, std::move(utilities), folders.pins);
}

}  // namespace berth::crust
