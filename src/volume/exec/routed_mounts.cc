#include "volume/exec/routed_mounts.h"

#include "base/ids.h"
#include "base/log.h"

namespace berth::volume {
namespace {

using base::Status;
using base::StatusCode;
using base::StatusOr;

// How long umount in a container may take, because its file system may be dead.
constexpr std::chrono::seconds kUmountTimeout(20);

// Whether a utility that failed with this error may still have mounted.
bool MayHaveMounted(const Status& status) {
  return !rpc::WasNotSent(status) && !rpc::IsFinal(status);
}

}  // namespace

RoutedMounts::RoutedMounts(const UtilitySurroundings& around, rpc::CriClient& runtime,
                           ContainerChoice& choice, ContainerExec& containers, HelperMounts& host)
    : mounter_(around.mounter),
      events_(around.events),
      node_(around.node),
      runtime_(runtime),
      choice_(choice),
      containers_(containers),
      host_(host),
      records_(around.data_folder + "/helper-mounts") {}

StatusOr<bool> RoutedMounts::IsMounted(std::string_view target) {
  ASSIGN_OR_RETURN(const auto table, mounter_.List());
  return platform::FindMount(table, target) != nullptr;
}

Status RoutedMounts::Mount(const HelperMount& mount) {
  ASSIGN_OR_RETURN(const bool mounted, IsMounted(mount.target));
  const auto earlier = records_.Read(mount.target);
  if (earlier.ok() && earlier->has_value()) {
    // If the mount exists, its run must never be killed, because the processes of the run may serve
    // the mount. So the record forgets the run.
    RETURN_IF_ERROR(mounted ? NoteEnd(**earlier) : EndEarlierRun(**earlier));
  }
  if (mounted) {
    return base::Error(StatusCode::kAlreadyExists, "something is mounted at '{}'", mount.target);
  }
  for (int attempt = 0; attempt < ContainerChoice::kMaxAttempts; ++attempt) {
    ASSIGN_OR_RETURN(const auto container, choice_.ChooseContainer(mount.plugin));
    bool gone = false;
    const Status done = MountRecorded(mount, container, gone);
    if (!gone) return done;
    choice_.NoteEnded(mount.plugin, *container);
  }
  return rpc::NotSent(base::Error(StatusCode::kUnavailable,
                                  "nothing was mounted: the containers of {} do not keep running",
                                  mount.plugin));
}

// `gone` is set if the container ended before anything was done.
Status RoutedMounts::MountRecorded(const HelperMount& mount,
                                   const std::optional<PodContainer>& container, bool& gone) {
  const MountRecord record{.target = mount.target,
                           .plugin = mount.plugin,
                           .container = container,
                           .run_id = container ? base::NewUuid() : ""};
  RETURN_IF_ERROR(records_.Write(record));
  const Status done = container ? MountInPod(mount, record, gone) : host_.Mount(mount);
  if (done.ok() && !gone) return NoteEnd(record);
  // The record stays as long as something may be mounted, or become so.
  if (MayHaveMounted(done)) return done;
  const auto mounted = IsMounted(mount.target);
  if (mounted.ok() && !*mounted) RETURN_IF_ERROR(records_.Remove(mount.target));
  return done;
}

Status RoutedMounts::NoteEnd(MountRecord record) {
  if (record.run_id.empty()) return base::OkStatus();
  record.run_id.clear();
  return records_.Write(record);
}

Status RoutedMounts::EndEarlierRun(const MountRecord& record) {
  if (record.run_id.empty() || !record.container.has_value()) return base::OkStatus();
  RETURN_IF_ERROR_WITH(ContainerExec::EndRun(*record.container, record.run_id),
                       fmt::format("end an earlier mount at '{}'", record.target));
  ASSIGN_OR_RETURN(const bool mounted, IsMounted(record.target));
  return mounted ? mounter_.UnmountLazy(record.target) : base::OkStatus();
}

Status RoutedMounts::MountInPod(const HelperMount& mount, const MountRecord& record, bool& gone) {
  const PodContainer& container = *record.container;
  const platform::Command command = MakeHelperCommand(mount);
  ASSIGN_OR_RETURN(const auto result, containers_.Run(container, command, record.run_id));
  gone = !result.has_value();
  if (gone) return base::OkStatus();
  if (result->exit_code != 0) {
    return base::Annotate(platform::ExitFailure(command, *result), container.Describe());
  }
  ASSIGN_OR_RETURN(const bool done, IsMounted(mount.target));
  if (done) return base::OkStatus();
  bool ignored = false;
  if (const Status left = UnmountInContainer(container, mount.target, ignored); !left.ok()) {
    LOG_WARNING("{}", base::ToString(left));
  }
  return base::Error(
      StatusCode::kFailedPrecondition,
      "{} succeeded in {}, but nothing is mounted at '{}' on the host: the container "
      "must mount the kubelet folder with mountPropagation Bidirectional",
      command.argv[0], container.Describe(), mount.target);
}

Status RoutedMounts::Unmount(std::string_view plugin, const platform::MountPoint& mount_point) {
  const std::string& target = mount_point.text();
  ASSIGN_OR_RETURN(const auto record, records_.Read(target));
  // Without a record, or with a damaged one, no container is known, and the host unmounts.
  if (!record.has_value()) return host_.Unmount(plugin, mount_point);
  if (const auto& container = record->container; container) {
    RETURN_IF_ERROR(UnmountInPod(*record, *container));
  } else {
    RETURN_IF_ERROR(host_.Unmount(plugin, mount_point));
  }
  // If another mount is still there, below the first, the record stays, because another call
  // unmounts it in the same way.
  ASSIGN_OR_RETURN(const bool mounted, IsMounted(target));
  return mounted ? base::OkStatus() : records_.Remove(target);
}

Status RoutedMounts::UnmountInPod(const MountRecord& record, const PodContainer& container) {
  ASSIGN_OR_RETURN(const bool mounted, IsMounted(record.target));
  if (!mounted) RETURN_IF_ERROR(EndEarlierRun(record));
  ASSIGN_OR_RETURN(const bool running, IsRunning(runtime_, container.id));
  bool gone = !running;
  if (running) {
    const Status done = UnmountInContainer(container, record.target, gone);
    // Only the pod may still have the mount, and it is not used there.
    if (!mounted) return base::OkStatus();
    if (!gone) {
      ASSIGN_OR_RETURN(const bool left, IsMounted(record.target));
      if (!left) return base::OkStatus();
      // The container lacks umount, or the mount is busy: in that case the host's umount fails,
      // too.
      if (!done.ok()) LOG_WARNING("{}", base::ToString(done));
      return mounter_.Unmount(record.target);
    }
  }
  if (!mounted) return base::OkStatus();
  RETURN_IF_ERROR(mounter_.UnmountLazy(record.target));
  ReportGonePod(record, container);
  return base::OkStatus();
}

// `gone` is set if the container ended before it was asked.
Status RoutedMounts::UnmountInContainer(const PodContainer& container, const std::string& target,
                                        bool& gone) {
  const platform::Command command{.argv = {"umount", target}, .timeout = kUmountTimeout};
  ASSIGN_OR_RETURN(const auto result, containers_.Run(container, command));
  gone = !result.has_value();
  if (gone || result->exit_code == 0) return base::OkStatus();
  return base::Annotate(platform::ExitFailure(command, *result), container.Describe());
}

void RoutedMounts::ReportGonePod(const MountRecord& record, const PodContainer& container) {
  const std::string message = fmt::format(
      "'{}' was detached lazily, because {} (UID {}), which had mounted it for {}, does not run "
      "any "
      "more",
      record.target, container.Describe(), container.registration.pod_uid, record.plugin);
  LOG_WARNING("{}", message);
  events_.Record(node_, base::EventType::kWarning, "PluginContainerGone", message);
}

}  // namespace berth::volume
