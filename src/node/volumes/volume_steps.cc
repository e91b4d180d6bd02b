// The steps of a unit (volume_units.h) for one pod: they write the records and call the plugin. The
// steps for a device that pods share are in volume_device_steps.cc.
#include <algorithm>

#include "base/flight.h"
#include "base/log.h"
#include "node/drivers/driver_limits.h"
#include "node/volumes/dead_mounts.h"
#include "node/volumes/sub_path.h"
#include "node/volumes/volume_units.h"
#include "platform/files/durable_file.h"
#include "rpc/outcome.h"

namespace berth::node {
namespace {

using base::Error;
using base::MutexLock;
using base::OkStatus;
using base::Quote;
using base::Status;
using base::StatusCode;
using base::StatusOr;

void KeepFirst(Status& first, const Status& status) {
  if (first.ok()) first = status;
}

bool OnlyOnePod(const volume::VolumeSpec& spec) {
  if (spec.claim == nullptr) return false;
  const std::vector<std::string> modes = spec.claim->access_modes();
  return std::find(modes.begin(), modes.end(), "ReadWriteOncePod") != modes.end();
}

// The socket of the runtime handler that mounts the volume; empty: the host mounts it.
std::string HandlerOf(const StoredPodVolume& stored) {
  return IsDeferred(stored) ? stored.record.sandbox->socket : "";
}

std::string PodOf(const std::optional<StoredPodVolume>& stored,
                  const std::shared_ptr<const api::Pod>& pod) {
  if (pod != nullptr) return pod->key();
  if (stored.has_value()) return fmt::format("{}/{}", stored->pod_ns, stored->pod_name);
  return "?";
}

}  // namespace

// ---- tear-down ----

Status VolumeUnits::TearDownReleased(const std::string& key) {
  Status failure;
  for (const Job& job : FindJobs(key, [](const Unit&, const Use& use) {
         return use.stored.has_value() &&
                (use.state.IsReleased() || use.stored->step == Step::kUnmounting);
       })) {
    KeepFirst(failure, TearDown(job));
  }
  EraseUses(key);
  return failure;
}

Status VolumeUnits::TearDown(const Job& job) {
  StoredPodVolume stored = *job.stored;
  deps_.owner.StopFollowing(job.unit);
  UpdateUse(job, [](Unit&, Use& use) {
    use.state.Apply(UseEvent::kTearDown);
    use.record_mounted = false;
  });
  if (stored.step != Step::kUnmounting) {
    stored.step = Step::kUnmounting;
    // A record of an earlier boot needs no update, because its mounts are gone and only folders may
    // be left.
    const Status written = IsThisBoot(stored.boot_id) ? deps_.records.Write(stored) : OkStatus();
    // If the disk is full, the old record stays, because it too says that something may exist. The
    // tear-down goes on, because it may free the disk (emptyDir).
    if (!written.ok() && written.code() != StatusCode::kResourceExhausted) {
      return ReportFailure(job, "tear it down", written);
    }
    UpdateUse(job, [&stored](Unit&, Use& use) { use.stored = stored; });
  }
  base::FlightSpan span(base::FlightKind::kStep, "tear down", PodOf(job.stored, job.pod));
  const Status torn_down = TearDownInPlugin(job, stored);
  span.End(torn_down);
  if (!torn_down.ok()) {
    const bool unknown = !rpc::IsFinal(torn_down);
    UpdateUse(job, [unknown](Unit&, Use& use) { use.tear_down_unknown = unknown; });
    const Status status = base::Annotate(
        torn_down, fmt::format("tear down volume '{}' of pod '{}'", stored.record.folder_name,
                               PodOf(job.stored, job.pod)));
    WarnPod(job, "FailedUnmount", base::ToString(status));
    return status;
  }
  RETURN_IF_ERROR(deps_.records.Remove(stored));
  LOG_INFO("volume {} of pod {} is torn down", Quote(stored.record.folder_name),
           Quote(PodOf(job.stored, job.pod)));
  UpdateUse(job, [](Unit&, Use& use) {
    use.stored.reset();
    use.tear_down_unknown = false;
  });
  return OkStatus();
}

Status VolumeUnits::TearDownInPlugin(const Job& job, const StoredPodVolume& stored) {
  platform::Mounter& mounter = deps_.host.mounter();
  RETURN_IF_ERROR(
      ReleaseSubPaths(mounter, deps_.host.paths(), stored.record.pod_uid, stored.names));
  // Mounts that the pod made inside its volume are unmounted first. A folder of the host (hostPath)
  // is left out, because mounts in it belong to the host and to other pods.
  if (stored.published.has_value() && !stored.record.block &&
      stored.published->path.starts_with(deps_.host.paths().Pod(stored.record.pod_uid) + "/")) {
    RETURN_IF_ERROR(UnmountBeneath(mounter, stored.published->path));
    if (IsThisBoot(stored.boot_id)) {
      RETURN_IF_ERROR(DetachDeadMount(mounter, stored.published->path, stored.mount));
    }
  }
  ASSIGN_OR_RETURN(const auto plugin, FindPlugin(stored.record.plugin));
  const Status status = plugin->TearDown(stored.record);
  if (status.ok() || IsThisBoot(stored.boot_id)) return status;
  // The record is of an earlier boot, whose mounts are gone. So the tear-down does not wait for a
  // driver that may be gone.
  LOG_WARNING(
      "tear down volume {} of pod {} from before the reboot: {}; only its folders are removed",
      Quote(stored.record.folder_name), Quote(stored.record.pod_uid), base::ToString(status));
  const Status forgotten = plugin->ForgetPodVolume(stored.record);
  if (forgotten.code() != StatusCode::kUnimplemented) return forgotten;
  return platform::RemoveTree(
      deps_.host.paths().PodVolume(api::PodUid(stored.record.pod_uid), stored.record.plugin,
                                   api::VolumeName(stored.record.folder_name)));
}

// ---- set-up ----

// The reason why this pod must not get the volume yet (docs/design.md, rule 3, and
// ReadWriteOncePod); "": it may get it.
std::string VolumeUnits::ConflictOf(const Job& job) const {
  MutexLock lock(mutex_);
  const auto found = units_.find(job.unit);
  if (found == units_.end()) return "";
  for (const auto& [key, use] : found->second->uses) {
    if (key == job.use) continue;
    const std::string other = PodOf(use.stored, use.pod);
    if (use.tear_down_unknown) {
      return fmt::format(
          "waiting until the volume is torn down for pod '{}': the outcome of the "
          "last attempt is unknown",
          other);
    }
    if (use.stored.has_value() && OnlyOnePod(job.volume.spec)) {
      return fmt::format("claim '{}' is ReadWriteOncePod and in use by pod '{}'",
                         job.volume.spec.claim->name(), other);
    }
  }
  return "";
}

Status VolumeUnits::SetUpWanted(const std::string& key) {
  Status failure;
  const auto waiting = [](const Unit&, const Use& use) {
    return use.state.phase() == UsePhase::kWaiting &&
           !(use.stored.has_value() && use.stored->step == Step::kUnmounting);
  };
  std::vector<std::string> uses;
  for (const Job& job : FindJobs(key, waiting)) uses.push_back(job.use);
  for (const std::string& use : uses) {
    // The jobs are read again for each use, because the set-up of one use may change the next one:
    // the device is mounted, or a ReadWriteOncePod volume is in use.
    for (Job& job : FindJobs(key, waiting)) {
      if (job.use == use) KeepFirst(failure, SetUp(std::move(job)));
    }
  }
  return failure;
}

// Whether the volume's driver tells the scheduler how many of its volumes fit (driver_limits.h).
bool VolumeUnits::KeepsLimits(const volume::VolumeSpec& spec) const {
  if (spec.pv == nullptr || !spec.pv->has_csi()) return false;
  const auto driver = deps_.host.GetObject(api::kinds::kCsiDriver, "", spec.pv->csi().driver());
  return driver.ok() && UpdatePeriodOf(api::CsiDriver(*driver)).has_value();
}

Status VolumeUnits::CheckReachable(const volume::VolumeSpec& spec) const {
  if (spec.pv == nullptr || spec.pv->node_affinity() == nullptr) return OkStatus();
  const auto node = deps_.host.GetObject(api::kinds::kNode, "", deps_.host.node_name());
  RETURN_IF_ERROR_WITH(node, fmt::format("read node '{}'", deps_.host.node_name()));
  return CheckNodeAffinity(*spec.pv, api::Node(*node));
}

Status VolumeUnits::SetUp(Job job) {
  if (std::string conflict = ConflictOf(job); !conflict.empty()) {
    WarnPod(job, "FailedMount", fmt::format("volume '{}': {}", job.volume.spec.name, conflict));
    SetReason(job, std::move(conflict));
    return OkStatus();
  }
  if (const Status reachable = CheckReachable(job.volume.spec); !reachable.ok()) {
    return ReportFailure(job, "mount it on the node", reachable);
  }
  if (const Status allowed = deps_.deferral.CheckAccessModes(*job.pod, job.volume.spec);
      !allowed.ok()) {
    return ReportFailure(job, "give it to a pod of that RuntimeClass", allowed);
  }
  // The plugin is looked up again, because it may have been replaced or removed since the last
  // look-up.
  auto plugin = deps_.plugins.Find(job.volume.spec);
  if (plugin.status().code() == StatusCode::kFailedPrecondition) {
    SetReason(job, std::string(base::Message(plugin.status())));
    return OkStatus();
  }
  if (!plugin.ok()) return ReportFailure(job, "set it up", plugin.status());
  job.volume.plugin = *std::move(plugin);
  Attachment attachment{.attached = true};
  if (job.volume.needs_attach) {
    attachment = deps_.attachments.FindAttachment(job.volume.spec, job.volume.device_name);
    if (!attachment.attached) {
      const bool no_room = attachment.no_room && KeepsLimits(job.volume.spec);
      UpdateUse(job, [no_room](Unit&, Use& use) { use.no_room = no_room; });
      if (attachment.failed) {
        WarnPod(job, "FailedAttachVolume",
                fmt::format("volume '{}': {}", job.volume.spec.name, attachment.reason));
      }
      SetReason(job, std::move(attachment.reason));
      return OkStatus();
    }
    if (!deps_.owner.IsReportedInUse(job.volume.device_name)) {
      SetReason(job, "waiting for the API to list it in the node's status.volumesInUse");
      UpdateUse(job, [](Unit& unit, Use&) { unit.waits_for_report = true; });
      deps_.owner.ReportInUse(/*urgent=*/true);
      return OkStatus();
    }
  }
  SetBegun(job);
  if (!job.volume.device_name.empty()) {
    ASSIGN_OR_RETURN(const bool mounted, MountDevice(job, attachment));
    if (!mounted) return OkStatus();
  }
  return SetUpForPod(job, attachment);
}

Status VolumeUnits::SetUpForPod(Job& job, const Attachment& attachment) {
  const volume::VolumeSpec& spec = job.volume.spec;
  StatusOr<base::Json> state = job.volume.plugin->PodState(*job.pod, spec);
  if (!state.ok()) return ReportFailure(job, "set it up", state.status());
  const StatusOr<HandlerChoice> choice = ChooseHandler(job);
  if (!choice.ok()) return ReportFailure(job, "decide who mounts it", choice.status());
  StoredPodVolume stored{.record = {.plugin = std::string(job.volume.plugin->name()),
                                    .device_name = job.volume.device_name,
                                    .pod_uid = job.pod->uid(),
                                    .folder_name = spec.folder_name(),
                                    .block = spec.block(),
                                    .state = *std::move(state)},
                         .step = Step::kMounting,
                         .pod_ns = job.pod->ns(),
                         .pod_name = job.pod->name(),
                         .names = job.volume.names,
                         .needs_attach = job.volume.needs_attach};
  if (job.device.has_value()) {
    stored.pv_name = job.device->record.pv_name;
    stored.device_state = job.device->record.state;
  }
  if (!choice->socket.empty())
    stored.record.sandbox = volume::SandboxPlace{.socket = choice->socket};
  // True if a failed attempt of this boot has already written exactly this record.
  const bool recorded =
      job.stored.has_value() && job.stored->step == Step::kMounting &&
      IsThisBoot(job.stored->boot_id) && job.stored->record.state == stored.record.state &&
      HandlerOf(*job.stored) == choice->socket && job.stored->names == stored.names;
  if (recorded) {
    stored = *job.stored;
  } else if (const Status written = deps_.records.Write(stored); !written.ok()) {
    return ReportFailure(job, "set it up", written);
  }
  UpdateUse(job, [&stored](Unit&, Use& use) { use.stored = stored; });
  job.stored = stored;
  const StatusOr<volume::Published> published = PublishForPod(job, attachment, *choice);
  if (!published.ok()) return ReportFailure(job, "set it up", published.status());
  LOG_INFO("volume {} of pod {} is {}", Quote(stored.record.folder_name), Quote(job.pod->key()),
           published->deferred.has_value() ? "left to the runtime handler" : "set up");
  stored = *job.stored;
  stored.published = *published;
  // A file system that must grow does so before the volume's first pod uses it, as with the
  // kubelet, because not all drivers can grow a file system that is in use. A volume that a sandbox
  // mounts grows there.
  if (const auto bytes = FindPendingExpansion(spec);
      bytes.has_value() && !IsInUse(job.unit) && !IsDeferred(stored)) {
    job.stored = stored;
    UpdateUse(job, [&stored](Unit&, Use& use) { use.stored = stored; });
    const Status grown = ExpandVolume(job, *bytes);
    // FAILED_PRECONDITION: the volume cannot grow where it is published; the kubelet lets the pod
    // start, too.
    if (!grown.ok() && grown.code() != StatusCode::kFailedPrecondition) {
      return ReportFailure(job, "grow it", grown);
    }
  }
  bool ready = false;
  UpdateUse(job, [&](Unit&, Use& use) {
    use.stored = stored;
    use.published = *published;
    use.record_mounted = stored.step == Step::kMounting;
    use.next_refresh = std::chrono::steady_clock::now() + refresh_interval_;
    use.state.Apply(UseEvent::kSetUp);
    ready = use.state.IsReady();
    use.attempt = Attempt::kNone;
    if (ready) use.reason.clear();
  });
  if (!ready) return OkStatus();
  deps_.owner.NotifyPod(job.pod->uid());
  if (job.volume.follows_api) deps_.owner.FollowObjects(job.unit, *job.pod, spec);
  return OkStatus();
}

// A volume that was left to a handler stays with this handler, because otherwise it could be
// mounted twice: in the sandbox and on the host.
StatusOr<HandlerChoice> VolumeUnits::ChooseHandler(const Job& job) const {
  ASSIGN_OR_RETURN(
      HandlerChoice choice,
      deps_.deferral.ChooseHandler(*job.pod, job.volume.names, job.volume.spec, [&job] {
        return job.volume.plugin->CanDefer(*job.pod, job.volume.spec);
      }));
  if (!job.stored.has_value() || !IsThisBoot(job.stored->boot_id)) return choice;
  const std::string before = HandlerOf(*job.stored);
  if (before.empty() || before == choice.socket) return choice;
  return Error(StatusCode::kFailedPrecondition,
               "its mount was left to the runtime handler at '{}', and now {}; delete the pod and "
               "create it again",
               before,
               choice.socket.empty() ? "the host must mount it" : "another handler must mount it");
}

// Publishes the volume. If a handler was chosen, the record is written again before the pod learns
// that the volume is ready.
StatusOr<volume::Published> VolumeUnits::PublishForPod(Job& job, const Attachment& attachment,
                                                       const HandlerChoice& choice) {
  volume::VolumeSpec spec = job.volume.spec;
  spec.runtime_file_systems = choice.file_systems;
  base::FlightSpan span(base::FlightKind::kStep, "set up", job.pod->key());
  StatusOr<volume::Published> published =
      job.volume.plugin->SetUp(*job.pod, spec, attachment.publish_context);
  span.End(published.status());
  if (!published.ok() || choice.socket.empty()) return published;
  const volume::DeferredMount* mount =
      published->deferred.has_value() ? &*published->deferred : nullptr;
  StoredPodVolume& stored = *job.stored;
  const Status allowed =
      deps_.deferral.ReportChoice(*job.pod, job.volume.names, spec, choice, mount);
  if (mount == nullptr) {
    stored.record.sandbox.reset();
  } else {
    // The record names the mount that the handler must unmount later.
    stored.published = *published;
    if (allowed.ok()) stored.step = Step::kMounted;
  }
  RETURN_IF_ERROR(deps_.records.Write(stored));
  UpdateUse(job, [&stored](Unit&, Use& use) { use.stored = stored; });
  RETURN_IF_ERROR(allowed);
  return published;
}

// Records that the volumes are mounted, so that a restarted agent does not mount them again. The
// pod does not wait for this.
void VolumeUnits::RecordMounted(const std::string& key) {
  const std::vector<Job> jobs = FindJobs(key, [](const Unit& unit, const Use& use) {
    return use.record_mounted || (unit.device_mounted && !unit.device_recorded);
  });
  if (jobs.empty()) return;
  if (const Job& job = jobs.front();
      job.device.has_value() && job.device_mounted && job.device->step == Step::kMounting) {
    StoredDevice device = *job.device;
    device.step = Step::kMounted;
    // After a failure the record stays "mounting", so a restarted agent only repeats more steps
    // than necessary.
    const Status written = deps_.records.Write(device);
    if (!written.ok()) LOG_WARNING("{}", base::ToString(written));
    UpdateUse(job, [&](Unit& unit, Use&) {
      unit.device_recorded = true;
      if (written.ok()) unit.device = device;
    });
  }
  const auto table = deps_.host.mounter().List();
  if (!table.ok()) LOG_WARNING("{}", base::ToString(table.status()));
  for (const Job& job : jobs) {
    if (!job.stored.has_value() || job.stored->step != Step::kMounting) continue;
    StoredPodVolume stored = *job.stored;
    if (!stored.published.has_value() || !table.ok()) continue;
    stored.step = Step::kMounted;
    stored.mount = IdentifyMount(*table, stored.published->path);
    const Status written = deps_.records.Write(stored);
    if (!written.ok()) LOG_WARNING("{}", base::ToString(written));
    UpdateUse(job, [&](Unit&, Use& use) {
      use.record_mounted = false;
      if (written.ok()) use.stored = stored;
    });
  }
}

// ---- while it is used ----

Status VolumeUnits::MaintainUses(const std::string& key) {
  Status failure;
  for (const Job& job : FindJobs(key, [](const Unit&, const Use& use) {
         return use.state.IsReady() && use.volume.follows_api && use.stored.has_value();
       })) {
    KeepFirst(failure, RefreshUse(job));
  }
  KeepFirst(failure, ExpandUnit(key));
  return failure;
}

Status VolumeUnits::RefreshUse(const Job& job) {
  using std::chrono::steady_clock;
  bool due = false;
  UpdateUse(job, [&](Unit&, Use& use) {
    const auto now = steady_clock::now();
    due = use.next_refresh <= now;
    if (due) use.next_refresh = now + refresh_interval_;
  });
  if (!due) return OkStatus();
  Attachment attachment{.attached = true};
  if (job.volume.needs_attach) {
    attachment = deps_.attachments.FindAttachment(job.volume.spec, job.volume.device_name);
    if (!attachment.attached) return OkStatus();
  }
  const StatusOr<HandlerChoice> choice = ChooseHandler(job);
  volume::VolumeSpec spec = job.volume.spec;
  if (choice.ok()) spec.runtime_file_systems = choice->file_systems;
  const StatusOr<volume::Published> published =
      choice.ok() ? job.volume.plugin->SetUp(*job.pod, spec, attachment.publish_context)
                  : choice.status();
  if (published.ok()) {
    deps_.owner.FollowObjects(job.unit, *job.pod, job.volume.spec);
    return OkStatus();
  }
  // The pod keeps the volume with its old content, as with the kubelet.
  UpdateUse(job, [](Unit&, Use& use) { use.RefreshNow(); });
  const Status status = base::Annotate(published.status(), "refresh its content");
  WarnPod(job, "FailedMount",
          fmt::format("volume '{}': {}", job.volume.spec.name, base::ToString(status)));
  return status;
}

}  // namespace berth::node
