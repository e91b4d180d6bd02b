#include "crust/namespace_sandbox.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <thread>

#include "api/time.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "crust/device.h"
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
#include "platform/walks/relabel.h"

namespace berth::crust {
namespace {

using base::Error;
using base::Quote;
using base::Status;
using base::StatusCode;
using base::StatusOr;
using base::UniqueFd;

constexpr std::chrono::seconds kProgressInterval(5);
constexpr std::chrono::milliseconds kShortestUnmount(500);
// Nobody waits for a child that was given up, so it is polled.
constexpr std::chrono::milliseconds kEndPollInterval(20);

// "device '/dev/sdb' does not answer: its ext4 could not be read since 2026-01-01T00:00:00Z". The
// text stays the same while the stall lasts, so that it makes one event, and not one each minute.
std::string DescribeStall(const MountPlan& plan, std::string_view failure, base::WallTime since) {
  return fmt::format("{} {} does not answer: its {} {} since {}",
                     plan.device.block ? "device" : "share", Quote(plan.device.source),
                     plan.fs_type(), failure, api::FormatTime(since));
}

class NamespaceSandbox final : public Sandbox {
 public:
  NamespaceSandbox(platform::Mounter& mounter, const UtilityMounts& utilities,
                   const StallLimits& limits, std::string pin, Holder holder)
      : mounter_(mounter),
        utilities_(utilities),
        limits_(limits),
        pin_(std::move(pin)),
        holder_(std::move(holder)) {}

  Status PublishVolume(const MountPlan& plan, const PublishContext& context) override {
    const std::string name(plan.name());
    if (!context.absent) {
      ASSIGN_OR_RETURN(const std::optional<dev_t> placed, holder_.FindMount(name));
      if (placed) return CheckPlaced(plan, *placed);
    }
    // The volume is moved into the sandbox as the last step, so a volume in the sandbox is
    // complete.
    ASSIGN_OR_RETURN(const VolumeMount mount, MountDetached(plan, context));
    if (const auto* group = plan.Find<ApplyGroup>()) {
      if (!plan.read_only()) RETURN_IF_ERROR(GiveToGroup(plan, *group, mount, context));
    }
    if (const auto* relabel = plan.Find<RelabelFiles>()) {
      if (!plan.read_only()) RETURN_IF_ERROR(Relabel(plan, *relabel, mount, context));
    }
    return holder_.PlaceMount(mount.root, name);
  }

  Status UnpublishVolume(const MountPlan& plan) override {
    const std::string name(plan.name());
    Probes& probes = probes_[name];
    const base::WallTime began = base::SystemClock().Now();
    // An unmount that was given up is waited for, because another one would hang beside it. Both
    // have the limit together, because the caller waits for both.
    const auto deadline = std::chrono::steady_clock::now() + limits_.unmount;
    WaitForEnd(probes.unmount, deadline);
    const Status gone = RunUnlessPending(probes.unmount, [&](std::shared_ptr<void> alive) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
          deadline - std::chrono::steady_clock::now());
      return holder_.RemoveMount(name, std::max(left, kShortestUnmount), alive);
    });
    if (gone.code() == StatusCode::kDeadlineExceeded) {
      if (!probes.unmounting_since) probes.unmounting_since = began;
      return Error(StatusCode::kDeadlineExceeded, "{}",
                   DescribeStall(plan, "is being unmounted", *probes.unmounting_since));
    }
    RETURN_IF_ERROR(gone);
    probes_.erase(name);  // the next volume with this name is another volume
    return base::OkStatus();
  }

  StatusOr<VolumeStats> ReadStats(const MountPlan& plan) override {
    const std::string name(plan.name());
    Probes& probes = probes_[name];
    const base::WallTime began = base::SystemClock().Now();
    const StatusOr<Holder::State> state = RunUnlessPending(
        probes.usage, [&](std::shared_ptr<void> alive) { return holder_.ReadState(name, alive); });
    if (state.status().code() == StatusCode::kDeadlineExceeded) {
      if (!probes.silent_since) probes.silent_since = began;
      return VolumeStats{
          .abnormal = true,
          .condition = DescribeStall(plan, "could not be read", *probes.silent_since)};
    }
    probes.silent_since.reset();
    if (!state.ok()) {
      if (state.status().code() == StatusCode::kNotFound) return state.status();
      return VolumeStats{.abnormal = true,
                         .condition = fmt::format("the file system has failed: {}",
                                                  base::Message(state.status()))};
    }
    VolumeStats stats{.usage = state->usage, .condition = "the file system answers"};
    if (state->read_only && !plan.read_only()) {
      stats.abnormal = true;
      stats.condition = "the file system has become read-only, as it does after an error";
    } else if (std::string why = DescribeDeviceFailure(plan, probes); !why.empty()) {
      stats.abnormal = true;
      stats.condition = std::move(why);
    }
    return stats;
  }

  StatusOr<int64_t> ExpandVolume(const MountPlan& plan) override {
    const platform::FileSystem* kind = platform::FindFileSystem(plan.fs_type());
    if (kind == nullptr || !plan.device.block) {
      return Error(StatusCode::kFailedPrecondition, "a mounted {} cannot be grown", plan.fs_type());
    }
    const std::string name(plan.name());
    {
      ASSIGN_OR_RETURN(const UniqueFd root, holder_.OpenRoot(name));
      RETURN_IF_ERROR(base::FaultPoint<"crust.grow.before">());
      const Status grown = kind->GrowMounted(root.get(), plan.device.source);
      if (grown.code() == StatusCode::kPermissionDenied) {
        return Error(StatusCode::kFailedPrecondition,
                     "{}: the kernel requires CAP_SYS_RESOURCE for it, which this process may lack",
                     base::Message(grown));
      }
      if (grown.code() == StatusCode::kFailedPrecondition) {
        // The device is busy, because an earlier resize that timed out still runs.
        return Error(StatusCode::kUnavailable, "{}", base::Message(grown));
      }
      RETURN_IF_ERROR(grown);
      RETURN_IF_ERROR(base::FaultPoint<"crust.grow.after">());
    }
    ASSIGN_OR_RETURN(const Holder::State state, holder_.ReadState(name));
    return state.usage.total_bytes;
  }

  StatusOr<Graft> MakeGraft(const MountPlan& plan, const std::string& sub_path) override {
    const std::string name(plan.name());
    StatusOr<UniqueFd> clone = holder_.CloneMount(name, sub_path);
    if (clone.status().code() == StatusCode::kNotFound && !sub_path.empty()) {
      RETURN_IF_ERROR(MakeFolders(name, sub_path));
      clone = holder_.CloneMount(name, sub_path);
    }
    RETURN_IF_ERROR(clone);
    struct statx found = {};
    if (statx(clone->get(), "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &found) != 0) {
      return platform::ErrnoError(errno, "check the file type of what the container gets");
    }
    if (!S_ISDIR(found.stx_mode) && !S_ISREG(found.stx_mode) && !S_ISSOCK(found.stx_mode) &&
        !S_ISFIFO(found.stx_mode)) {
      return Error(StatusCode::kPermissionDenied, "subPath {} is a device, or a symlink",
                   Quote(sub_path));
    }
    return Graft{.mount = *std::move(clone), .folder = S_ISDIR(found.stx_mode)};
  }

  Status RemoveSandbox() override { return UnpinNamespace(mounter_, pin_); }

 private:
  struct Late {
    std::chrono::steady_clock::time_point from;  // measures how long
    base::WallTime since;                        // the same moment, for people
  };
  // The child processes that examine or unmount a volume. Each pointer has expired when the last
  // child of its kind has ended. No new child begins before that, because processes that hang in
  // the kernel would accumulate.
  struct Probes {
    std::weak_ptr<void> usage, device, unmount;
    // When the first of the calls of a kind that timed out in a row began; none: the last
    // one was in time.
    std::optional<base::WallTime> silent_since, unmounting_since;
    std::optional<Late> late;
  };

  // Runs `probe` unless the last one still runs.
  template <typename Probe>
  static auto RunUnlessPending(std::weak_ptr<void>& last, Probe probe) -> decltype(probe(nullptr)) {
    if (!HasEnded(last)) {
      return Error(StatusCode::kDeadlineExceeded, "the last call into the file system still runs");
    }
    const auto alive = std::make_shared<char>();
    last = alive;
    return probe(alive);
  }

  static void WaitForEnd(const std::weak_ptr<void>& probe,
                         std::chrono::steady_clock::time_point deadline) {
    while (!HasEnded(probe) && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(kEndPollInterval);
    }
  }

  static bool HasEnded(const std::weak_ptr<void>& probe) {
    platform::ReapDeadChildren();  // one of the dead children may be that of the probe
    return probe.expired();
  }

  // Writes the volume's root folder to the device, or reads the device of a volume that is only
  // read. Returns, as a text for people, why that fails or has failed for longer than the limit;
  // "": it does not.
  std::string DescribeDeviceFailure(const MountPlan& plan, Probes& probes) const {
    const bool reads = plan.read_only();
    // The state of a share was read from its server.
    if (reads && !plan.device.block) return "";
    const auto now = std::chrono::steady_clock::now();
    const base::WallTime began = base::SystemClock().Now();
    // If a probe that timed out has ended since, it was only slow, so the time starts again. This
    // is done for block devices only, because on a share the sync may have ended by a signal.
    if (plan.device.block && HasEnded(probes.device)) probes.late.reset();
    const Status done = RunUnlessPending(probes.device, [&](std::shared_ptr<void> alive) {
      return reads ? ReadFirstBlock(plan.device, alive)
                   : holder_.SyncVolume(std::string(plan.name()), alive);
    });
    if (done.code() != StatusCode::kDeadlineExceeded) {
      probes.late.reset();
      if (done.ok()) return "";
      return fmt::format("{}: {}",
                         reads ? "the device cannot be read any more"
                               : "nothing can be written to the file system any more",
                         base::Message(done));
    }
    if (!probes.late) probes.late = Late{.from = now, .since = began};
    if (now - probes.late->from < limits_.write) return "";
    return DescribeStall(plan, reads ? "could not be read" : "could not be written",
                         probes.late->since);
  }

  // Mounts the volume outside of all mount namespaces, by the kernel or by its mount utility.
  StatusOr<VolumeMount> MountDetached(const MountPlan& plan, const PublishContext& context) const {
    const auto* mount = plan.Find<MountFileSystem>();
    if (mount == nullptr || mount->utility.empty()) return MountVolume(plan, context.shared);
    // `exclusive` stays false, because others may use the share's files at the same time.
    ASSIGN_OR_RETURN(UniqueFd root, utilities_.MountShare(plan, *mount));
    return VolumeMount{.root = std::move(root)};
  }

  // Checks that the volume with the plan's name in the sandbox, which is on device `placed`, is the
  // plan's volume.
  static Status CheckPlaced(const MountPlan& plan, dev_t placed) {
    // btrfs has its own numbers, which belong to no device.
    if (!plan.device.block || major(placed) == 0 || placed == plan.device.number) {
      return base::OkStatus();
    }
    return Error(StatusCode::kFailedPrecondition,
                 "the sandbox has a volume on device {}:{} in its place, not on {}:{}",
                 major(placed), minor(placed), major(plan.device.number),
                 minor(plan.device.number));
  }

  static Status GiveToGroup(const MountPlan& plan, const ApplyGroup& group,
                            const VolumeMount& mount, const PublishContext& context) {
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

  static Status Relabel(const MountPlan& plan, const RelabelFiles& relabel,
                        const VolumeMount& mount, const PublishContext& context) {
    const Status done = platform::RelabelFiles(mount.root.get(), plan.device.source,
                                               {.label = relabel.label,
                                                .cancelled = context.cancelled,
                                                .progress = context.progress,
                                                .progress_interval = kProgressInterval});
    // The policy of the node decides who may use a share whose server knows no labels. A kubelet
    // has such a volume not relabelled.
    if (done.code() != StatusCode::kFailedPrecondition || plan.device.block) return done;
    LOG_INFO("share {} stays as it is: {}", Quote(plan.device.source), base::Message(done));
    return base::OkStatus();
  }

  // Makes the folders of a subPath, as the kubelet does, with the mode of the volume's root.
  Status MakeFolders(const std::string& name, const std::string& sub_path) const {
    ASSIGN_OR_RETURN(const UniqueFd root, holder_.OpenRoot(name));
    struct statx found = {};
    if (statx(root.get(), "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_MODE, &found) != 0) {
      return platform::ErrnoError(errno, "read the mode of the volume's root");
    }
    return platform::MakeFoldersBeneath(root.get(), sub_path, found.stx_mode & 07777).status();
  }

  platform::Mounter& mounter_;
  const UtilityMounts& utilities_;
  const StallLimits& limits_;
  const std::string pin_;
  const Holder holder_;
  std::map<std::string, Probes> probes_;  // by the volume's name
};

class NamespaceSandboxes final : public SandboxKind {
 public:
  NamespaceSandboxes(platform::Mounter& mounter, UtilityMounts utilities, std::string pins,
                     const StallLimits& limits)
      : mounter_(mounter),
        utilities_(std::move(utilities)),
        limits_(limits),
        pins_(std::move(pins)) {}

  StatusOr<std::unique_ptr<Sandbox>> OpenSandbox(const std::string& id) override {
    const std::string pin = pins_ + "/" + id;
    ASSIGN_OR_RETURN(Holder holder, Holder::Open(mounter_, pin));
    return std::make_unique<NamespaceSandbox>(mounter_, utilities_, limits_, pin,
                                              std::move(holder));
  }

 private:
  platform::Mounter& mounter_;
  const UtilityMounts utilities_;
  const StallLimits limits_;
  const std::string pins_;
};

}  // namespace

StatusOr<std::unique_ptr<SandboxKind>> NewNamespaceSandboxes(platform::Mounter& mounter,
                                                             platform::Exec& exec,
                                                             const NamespaceFolders& folders,
                                                             const StallLimits& limits) {
  RETURN_IF_ERROR(platform::MakeFolders(folders.pins, 0700));
  RETURN_IF_ERROR(PreparePins(mounter, folders.pins));
  RETURN_IF_ERROR(RemoveEmptyPins(folders.pins));
  ASSIGN_OR_RETURN(UtilityMounts utilities,
                   UtilityMounts::Open(mounter, exec, folders.utilities, folders.kubelet));
  return std::make_unique<NamespaceSandboxes>(mounter, std::move(utilities), folders.pins, limits);
}

}  // namespace berth::crust
