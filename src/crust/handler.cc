#include "crust/handler.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "base/ipc/crust_call.h"
#include "base/log.h"
#include "base/text.h"
#include "crust/bundle_check.h"
#include "crust/containers/guest_containers.h"
#include "crust/pods/plan_file.h"
#include "crust/volume_queries.h"
#include "platform/files/durable_file.h"
#include "platform/files/private_folder.h"

namespace berth::crust {
namespace {

namespace ipc = base::ipc;
using base::Error;
using base::OkStatus;
using base::Quote;
using base::Status;
using base::StatusCode;
using base::StatusOr;

// How long the handler waits for a busy device of a sandbox that has ended before it tries later.
constexpr std::chrono::milliseconds kGlance(200);

std::string ResolveFolder(const std::string& folder) {
  std::error_code error;
  const auto path = std::filesystem::weakly_canonical(folder, error);
  return error ? folder : path.string();
}

}  // namespace

StatusOr<std::unique_ptr<Handler>> Handler::Start(HandlerOptions options, SandboxKind& kind,
                                                  platform::Mounter& mounter) {
  ASSIGN_OR_RETURN(
      SandboxRecords records,
      SandboxRecords::Open(options.paths.RecordFolder(), options.paths.FormerRecordFolder()));
  for (const std::string& folder : {options.paths.PlanFolder(), options.paths.MarkFolder()}) {
    RETURN_IF_ERROR(platform::MakePrivateFolder(folder));
  }
  ASSIGN_OR_RETURN(std::unique_ptr<PodVolumes> pods,
                   PodVolumes::Open(options.paths, mounter, options.patience));
  std::unique_ptr<Handler> handler(
      new Handler(std::move(options), kind, mounter, std::move(records), std::move(pods)));
  RETURN_IF_ERROR(handler->LoadRecords());
  handler->watch_.Start();
  return handler;
}

Handler::Handler(HandlerOptions options, SandboxKind& kind, platform::Mounter& mounter,
                 SandboxRecords records, std::unique_ptr<PodVolumes> pods)
    : options_(std::move(options)),
      kind_(kind),
      sandboxes_(options_.patience),
      records_(std::move(records)),
      pods_(std::move(pods)),
      steps_(sandboxes_, records_, options_.free_within, stopping_),
      mounts_({.run_folder = options_.paths.run(),
               .kubelet_folder = options_.kubelet_folder,
               .resolved_kubelet_folder = ResolveFolder(options_.kubelet_folder),
               .sub_paths = options_.offer.Has(wire::RuntimeCapability::RPC::SUBPATH)},
              steps_, *pods_, mounter),
      watch_({.name = "crust-watch",
              .workers = 2,
              .retry_start = std::chrono::seconds(1),
              .retry_max = std::chrono::seconds(60)},
             [this](const std::string& id) { return ClearSandboxIfEnded(id); }) {}

Handler::~Handler() {
  stopping_ = true;
  watch_.Stop();
}

Status Handler::LoadRecords() {
  ASSIGN_OR_RETURN(SandboxRecords::Loaded known, records_.LoadRecords());
  for (SandboxRecord& record : known.records) {
    const std::string id = record.sandbox_id;
    ASSIGN_OR_RETURN(const Hold entry, sandboxes_.AddSandbox(std::move(record)));
    // A sandbox that cannot be opened now is opened when a call needs it, so it does not block the
    // others.
    if (auto sandbox = kind_.OpenSandbox(id); sandbox.ok()) {
      entry->sandbox = *std::move(sandbox);
    } else {
      LOG_ERROR("open sandbox {}: {}", Quote(id), base::ToString(sandbox.status()));
    }
    RETURN_IF_ERROR(
        platform::WriteDurably<"crust.mark">(ipc::crust::MarkPath(options_.paths.run(), id), ""));
    for (const VolumeRecord& volume : entry->record.volumes) {
      if (volume.state != VolumeState::kFailed) sandboxes_.RecordUse(id, volume);
    }
    LOG_INFO("sandbox {} of pod {} has {} volumes", Quote(id), entry->record.pod_uid,
             entry->record.volumes.size());
    watch_.Add(id);
  }
  const std::set<std::string> unreadable(known.unreadable.begin(), known.unreadable.end());
  ASSIGN_OR_RETURN(const auto marks, platform::ListFolder(options_.paths.MarkFolder()));
  for (const std::string& mark : marks) {
    if (sandboxes_.Contains(mark)) continue;
    if (unreadable.contains(mark)) {
      unreadable_.insert(mark);  // marks exist only for sandboxes of this boot
    } else {
      // The sandbox has ended, so berth-oci no longer needs the mark.
      unlink((options_.paths.MarkFolder() + "/" + mark).c_str());
    }
  }
  pods_->ForgetGonePods(options_.kubelet_folder, [this](const api::PodUid& pod) {
    return !sandboxes_.FindSandboxes(pod).empty();
  });
  return OkStatus();
}

StatusOr<Handler::Hold> Handler::HoldSandbox(const std::string& sandbox_id,
                                             const SandboxTable::HoldOptions& options) {
  RETURN_IF_ERROR(CheckSandboxId(sandbox_id));
  // The sandbox's volumes may be in use, so the answer is not NOT_FOUND, which would mean that the
  // sandbox has ended.
  if (unreadable_.contains(sandbox_id)) {
    return Error(StatusCode::kInternal,
                 "the record of sandbox {} in {} cannot be read: its volumes stay mounted until "
                 "this machine "
                 "is rebooted",
                 Quote(sandbox_id), Quote(options_.paths.RecordFolder()));
  }
  ASSIGN_OR_RETURN(Hold hold, sandboxes_.HoldSandbox(sandbox_id, options));
  if (hold->sandbox == nullptr) {
    StatusOr<std::unique_ptr<Sandbox>> sandbox = kind_.OpenSandbox(sandbox_id);
    // The error is not NOT_FOUND, because the caller would then treat the sandbox as ended.
    if (!sandbox.ok()) {
      return Error(StatusCode::kInternal, "open sandbox {}: {}", Quote(sandbox_id),
                   base::Message(sandbox.status()));
    }
    hold->sandbox = *std::move(sandbox);
  }
  return hold;
}

StatusOr<base::UniqueFd> Handler::BeginSandbox(const rpc::SandboxId& id, const api::PodUid& pod,
                                               const std::string& bundle) {
  const std::string& sandbox_id = id.text();
  RETURN_IF_ERROR(CheckSandboxId(sandbox_id));
  RETURN_IF_ERROR(CheckPodUid(pod));
  if (!bundle.starts_with('/') || bundle.size() > 4095 || !IsFolder(bundle)) {
    return Error(StatusCode::kInvalidArgument, "bundle {} is no folder", Quote(bundle));
  }
  if (StatusOr<Hold> known = HoldSandbox(sandbox_id);
      known.status().code() != StatusCode::kNotFound) {
    RETURN_IF_ERROR(known);
    const SandboxRecord& record = (*known)->record;
    if (record.pod_uid == pod && record.bundle == bundle && !record.ending) {
      return PrepareSandbox(**known);
    }
    return Error(StatusCode::kFailedPrecondition, "another sandbox has the id {}",
                 Quote(sandbox_id));
  }
  ASSIGN_OR_RETURN(
      const Hold entry,
      sandboxes_.AddSandbox({.sandbox_id = sandbox_id, .pod_uid = pod, .bundle = bundle}));
  entry->wait = options_.check_interval;
  StatusOr<base::UniqueFd> begun = [&]() -> StatusOr<base::UniqueFd> {
    RETURN_IF_ERROR(records_.WriteRecord(entry->record));
    ASSIGN_OR_RETURN(entry->sandbox, kind_.OpenSandbox(sandbox_id));
    RETURN_IF_ERROR(platform::WriteDurably<"crust.mark">(
        ipc::crust::MarkPath(options_.paths.run(), sandbox_id), ""));
    return PrepareSandbox(*entry);
  }();
  if (begun.ok()) {
    watch_.AddAfter(sandbox_id, options_.check_interval);
    LOG_INFO("sandbox {} of pod {} is recorded", Quote(sandbox_id), pod);
    return begun;
  }
  // No container uses the new sandbox yet, so it can be cleared.
  if (const Status undone = ClearSandbox(*entry, options_.free_within); !undone.ok()) {
    LOG_WARNING("clear sandbox {}: {}", Quote(sandbox_id), base::ToString(undone));
    watch_.Add(sandbox_id);
  }
  return base::Annotate(begun.status(), fmt::format("begin sandbox {}", Quote(sandbox_id)));
}

Status Handler::CheckPublish(const SandboxRecord& record,
                             const wire::RuntimePublishVolumeRequest& request) const {
  if (record.ending) {
    return Error(StatusCode::kFailedPrecondition, "sandbox {} has ended", Quote(record.sandbox_id));
  }
  const platform::TargetPath target(request.host_target_path());
  RETURN_IF_ERROR(CheckTarget(target, options_.kubelet_folder, record.pod_uid));
  ASSIGN_OR_RETURN(const std::vector<platform::TargetPath> planned,
                   ReadPlan(options_.paths.run(), record.pod_uid));
  if (std::ranges::find(planned, target) != planned.end()) return OkStatus();
  return Error(
      StatusCode::kFailedPrecondition,
      "target path {} is not in the plan of pod {}, so containers would not get the volume", target,
      record.pod_uid);
}

StatusOr<wire::RuntimePublishVolumeResponse> Handler::RuntimePublishVolume(
    const wire::RuntimePublishVolumeRequest& request) {
  const api::PodUid pod(request.pod_uid());
  ASSIGN_OR_RETURN(const bool of_pod, NamesPod(request.sandbox_id(), pod, options_.offer));
  if (of_pod) {
    RETURN_IF_ERROR_WITH(
        PublishForPod(pod, request),
        fmt::format("publish {} for pod {}", Quote(request.host_volume_id().substr(0, 512)), pod));
    return wire::RuntimePublishVolumeResponse();
  }
  ASSIGN_OR_RETURN(const Hold hold, HoldSandbox(request.sandbox_id()));
  SandboxRecord& record = hold->record;
  const platform::TargetPath target(request.host_target_path());
  const std::string context =
      fmt::format("publish {} in sandbox {}", Quote(request.host_volume_id().substr(0, 512)),
                  Quote(record.sandbox_id));
  const Status published = [&]() -> Status {
    RETURN_IF_ERROR(CheckPublish(record, request));
    ASSIGN_OR_RETURN(MountPlan plan, MakePlan(request, options_.offer));
    return steps_.PublishVolume(
        *hold,
        {.host_volume_id = request.host_volume_id(), .target = target, .plan = std::move(plan)});
  }();
  RETURN_IF_ERROR_WITH(published, context);
  return wire::RuntimePublishVolumeResponse();
}

StatusOr<wire::RuntimeUnpublishVolumeResponse> Handler::RuntimeUnpublishVolume(
    const wire::RuntimeUnpublishVolumeRequest& request) {
  const platform::TargetPath target(request.host_target_path());
  if (!request.pod_uid().empty()) {
    const api::PodUid pod(request.pod_uid());
    RETURN_IF_ERROR_WITH(UnpublishForPod(pod, request),
                         fmt::format("unpublish {} for pod {}",
                                     Quote(request.host_volume_id().substr(0, 512)), pod));
    return wire::RuntimeUnpublishVolumeResponse();
  }
  if (request.sandbox_id().empty()) {
    wire::RuntimeUnpublishVolumeRequest one = request;
    const auto has_target = [&](const api::PodUid& pod) {
      return CheckTarget(target, options_.kubelet_folder, pod).ok();
    };
    for (const std::string& id : sandboxes_.FindSandboxes(has_target)) {
      one.set_sandbox_id(id);
      RETURN_IF_ERROR(RuntimeUnpublishVolume(one));
    }
    return wire::RuntimeUnpublishVolumeResponse();
  }
  StatusOr<Hold> hold = HoldSandbox(request.sandbox_id(), {.interrupt = true});
  if (hold.status().code() == StatusCode::kNotFound) return wire::RuntimeUnpublishVolumeResponse();
  RETURN_IF_ERROR(hold);
  const VolumeRecord* volume = (*hold)->record.FindTarget(target);
  if (volume == nullptr) return wire::RuntimeUnpublishVolumeResponse();
  if (volume->host_volume_id != request.host_volume_id()) {
    return Error(StatusCode::kFailedPrecondition, "the volume at {} is {}, not {}", target,
                 Quote(volume->host_volume_id), Quote(request.host_volume_id().substr(0, 512)));
  }
  RETURN_IF_ERROR_WITH(steps_.UnpublishVolume(**hold, target),
                       fmt::format("unpublish {} in sandbox {}", Quote(request.host_volume_id()),
                                   Quote(request.sandbox_id())));
  return wire::RuntimeUnpublishVolumeResponse();
}

Status Handler::PublishForPod(const api::PodUid& pod,
                              const wire::RuntimePublishVolumeRequest& request) {
  const platform::TargetPath target(request.host_target_path());
  RETURN_IF_ERROR(CheckTarget(target, options_.kubelet_folder, pod));
  ASSIGN_OR_RETURN(MountPlan plan, MakePlan(request, options_.offer));
  return pods_->PublishVolume(
      pod, {.host_volume_id = request.host_volume_id(), .target = target, .plan = std::move(plan)},
      [&] { return IsInSandbox(pod, target); });
}

Status Handler::UnpublishForPod(const api::PodUid& pod,
                                const wire::RuntimeUnpublishVolumeRequest& request) {
  if (!request.sandbox_id().empty()) {
    return Error(StatusCode::kInvalidArgument, "the request names both a sandbox and a pod");
  }
  RETURN_IF_ERROR(CheckPodUid(pod));
  const platform::TargetPath target(request.host_target_path());
  RETURN_IF_ERROR(CheckTarget(target, options_.kubelet_folder, pod));
  return pods_->UnpublishVolume(pod, target, request.host_volume_id(),
                                [&] { return TakeOutOfSandboxes(pod, target); });
}

StatusOr<base::UniqueFd> Handler::PrepareSandbox(Entry& entry) {
  base::UniqueFd machine;
  if (GuestContainers* guest = entry.sandbox->containers()) {
    ASSIGN_OR_RETURN(const PodSetup setup, ReadPodSetupOf(entry.record.bundle));
    RETURN_IF_ERROR(guest->Begin(setup));
    ASSIGN_OR_RETURN(machine, guest->OpenProcess());
  }
  RETURN_IF_ERROR(PublishPodVolumes(entry));
  return machine;
}

Status Handler::PublishPodVolumes(Entry& entry) {
  ASSIGN_OR_RETURN(std::vector<VolumeRecord> volumes, pods_->ListVolumes(entry.pod_uid));
  for (VolumeRecord& volume : volumes) {
    const std::string context =
        fmt::format("publish {} of pod {}", Quote(volume.host_volume_id), entry.pod_uid);
    const platform::TargetPath target = volume.target;
    const bool grow = volume.grow;
    RETURN_IF_ERROR_WITH(steps_.PublishVolume(entry, std::move(volume)), context);
    if (!grow) continue;
    const auto grown = ExpandVolume(*entry.sandbox, *entry.record.FindTarget(target), 0);
    RETURN_IF_ERROR_WITH(grown, "grow it");
  }
  return OkStatus();
}

StatusOr<bool> Handler::IsInSandbox(const api::PodUid& pod, const platform::TargetPath& target) {
  for (const std::string& id : sandboxes_.FindSandboxes(pod)) {
    const StatusOr<Hold> hold = HoldSandbox(id);
    if (hold.status().code() == StatusCode::kNotFound) continue;
    RETURN_IF_ERROR(hold);
    if ((*hold)->record.FindTarget(target) != nullptr) return true;
  }
  return false;
}

Status Handler::TakeOutOfSandboxes(const api::PodUid& pod, const platform::TargetPath& target) {
  // A sandbox that keeps the volume does not block the others.
  Status first = OkStatus();
  for (const std::string& id : sandboxes_.FindSandboxes(pod)) {
    const StatusOr<Hold> hold = HoldSandbox(id, {.interrupt = true});
    if (hold.status().code() == StatusCode::kNotFound) continue;
    const Status gone = hold.ok() ? steps_.UnpublishVolume(**hold, target) : hold.status();
    if (first.ok()) first = base::Annotate(gone, fmt::format("sandbox {}", Quote(id)));
  }
  return first;
}

Status Handler::EndSandbox(const std::string& sandbox_id) {
  StatusOr<Hold> hold = HoldSandbox(sandbox_id, {.interrupt = true});
  if (hold.status().code() == StatusCode::kNotFound) return OkStatus();
  RETURN_IF_ERROR(hold);
  const Status ended = ClearSandbox(**hold, options_.free_within);
  // watch_ unpublishes the volumes that are left.
  if (!ended.ok()) watch_.Add(sandbox_id);
  return base::Annotate(ended, fmt::format("end sandbox {}", Quote(sandbox_id)));
}

Status Handler::ClearSandbox(Entry& entry, std::chrono::milliseconds free_within) {
  SandboxRecord& record = entry.record;
  if (!record.ending) {
    record.ending = true;
    RETURN_IF_ERROR(records_.WriteRecord(record));
  }
  // A volume that cannot be unpublished does not block the others.
  Status first = OkStatus();
  std::vector<platform::TargetPath> targets;
  for (const VolumeRecord& volume : record.volumes) targets.push_back(volume.target);
  for (const platform::TargetPath& target : targets) {
    Status gone = steps_.UnpublishVolume(entry, target, free_within);
    // A kernel of the sandbox's own that hangs or has ended is not waited for.
    const bool silent =
        gone.code() == StatusCode::kDeadlineExceeded || gone.code() == StatusCode::kUnavailable;
    if (silent && entry.sandbox != nullptr && entry.sandbox->ForceEnd().ok()) {
      LOG_WARNING("sandbox {} is ended by force: {}", Quote(record.sandbox_id),
                  base::ToString(gone));
      gone = steps_.UnpublishVolume(entry, target, free_within);
    }
    if (first.ok()) first = gone;
  }
  RETURN_IF_ERROR(first);
  // The sandbox may exist although an earlier try to open it failed.
  if (entry.sandbox == nullptr) {
    ASSIGN_OR_RETURN(entry.sandbox, kind_.OpenSandbox(record.sandbox_id));
  }
  RETURN_IF_ERROR(entry.sandbox->RemoveSandbox());
  entry.sandbox.reset();
  RETURN_IF_ERROR(records_.RemoveRecord(record.sandbox_id));
  RETURN_IF_ERROR(platform::RemoveDurably<"crust.mark">(
      ipc::crust::MarkPath(options_.paths.run(), record.sandbox_id)));
  sandboxes_.ForgetSandbox(record.sandbox_id);
  LOG_INFO("sandbox {} of pod {} has ended", Quote(record.sandbox_id), record.pod_uid);
  return OkStatus();
}

base::KeyedWorkers::Outcome Handler::ClearSandboxIfEnded(const std::string& sandbox_id) {
  using Outcome = base::KeyedWorkers::Outcome;
  StatusOr<Hold> hold = HoldSandbox(sandbox_id);
  if (hold.status().code() == StatusCode::kNotFound) return Outcome::Done();
  if (hold.status().code() == StatusCode::kAborted) return Outcome::After(options_.check_interval);
  if (!hold.ok()) return Outcome::From(hold.status());
  Entry& entry = **hold;
  if (!entry.record.ending) {
    const auto next = CheckSandboxExists(entry, options_.paths.run(), options_.check_interval);
    if (next.has_value()) return Outcome::After(*next);
  }
  // It holds the sandbox only for a moment each time, because it comes again, and a call about one
  // of several busy volumes must get to say which process keeps it.
  return Outcome::From(ClearSandbox(entry, std::min(options_.free_within, kGlance)));
}

StatusOr<CreateReply> Handler::CreateContainer(const CreateRequest& request) {
  // A container waits longer, because another call may hold the sandbox while it grows a file
  // system.
  ASSIGN_OR_RETURN(const Hold hold,
                   HoldSandbox(request.sandbox_id, {.patience = options_.container_patience}));
  return mounts_.PrepareContainer(*hold, request);
}

StatusOr<ipc::Reply> Handler::CallContainer(const std::string& sandbox_id,
                                            const ipc::Message& request) {
  ASSIGN_OR_RETURN(const Hold hold,
                   HoldSandbox(sandbox_id, {.patience = options_.container_patience}));
  GuestContainers* guest = hold->sandbox->containers();
  if (guest == nullptr) {
    return Error(StatusCode::kFailedPrecondition, "the containers of sandbox {} run on the host",
                 Quote(sandbox_id));
  }
  return guest->Call(request);
}

template <typename Request>
StatusOr<Handler::HeldVolume> Handler::HoldVolume(const Request& request) {
  const api::PodUid pod(request.pod_uid());
  ASSIGN_OR_RETURN(const bool of_pod, NamesPod(request.sandbox_id(), pod, options_.offer));
  if (of_pod) return HoldVolumeOfPod(pod, request.host_volume_id());
  ASSIGN_OR_RETURN(Hold hold, HoldSandbox(request.sandbox_id()));
  const VolumeRecord* volume = hold->record.FindVolume(request.host_volume_id());
  if (volume == nullptr) {
    return Error(StatusCode::kNotFound, "sandbox {} has no volume {}", Quote(request.sandbox_id()),
                 Quote(request.host_volume_id().substr(0, 512)));
  }
  return HeldVolume{std::move(hold), *volume};
}

StatusOr<Handler::HeldVolume> Handler::HoldVolumeOfPod(const api::PodUid& pod,
                                                       const std::string& host_volume_id) {
  ASSIGN_OR_RETURN(const VolumeRecord known, pods_->FindVolume(pod, host_volume_id));
  Status why = Error(StatusCode::kUnavailable, "pod {} has no sandbox now", pod);
  for (const std::string& id : sandboxes_.FindSandboxes(pod)) {
    StatusOr<Hold> hold = HoldSandbox(id);
    if (!hold.ok()) {
      if (hold.status().code() != StatusCode::kNotFound) why = hold.status();
      continue;
    }
    const VolumeRecord* volume = (*hold)->record.FindTarget(known.target);
    if ((*hold)->record.ending || volume == nullptr || volume->state != VolumeState::kPublished) {
      continue;
    }
    return HeldVolume{*std::move(hold), *volume};
  }
  return why;
}

StatusOr<wire::RuntimeGetCapabilitiesResponse> Handler::RuntimeGetCapabilities(
    const wire::RuntimeGetCapabilitiesRequest& request) {
  return ListCapabilities(options_.offer);
}

StatusOr<wire::RuntimeGetSupportedFileSystemsResponse> Handler::RuntimeGetSupportedFileSystems(
    const wire::RuntimeGetSupportedFileSystemsRequest& request) {
  return ListFileSystems(options_.offer);
}

StatusOr<wire::RuntimeGetVolumeStatsResponse> Handler::RuntimeGetVolumeStats(
    const wire::RuntimeGetVolumeStatsRequest& request) {
  if (!options_.offer.Has(wire::RuntimeCapability::RPC::VOLUME_STATS)) {
    return Error(StatusCode::kUnimplemented, "this handler does not offer volume statistics");
  }
  ASSIGN_OR_RETURN(const HeldVolume held, HoldVolume(request));
  return ReadVolumeStats(*held.hold->sandbox, held.volume);
}

StatusOr<wire::RuntimeExpandVolumeResponse> Handler::RuntimeExpandVolume(
    const wire::RuntimeExpandVolumeRequest& request) {
  if (!options_.offer.Has(wire::RuntimeCapability::RPC::VOLUME_RESIZE)) {
    return Error(StatusCode::kFailedPrecondition,
                 "this handler does not offer the expansion of volumes");
  }
  const api::PodUid pod(request.pod_uid());
  ASSIGN_OR_RETURN(const bool of_pod, NamesPod(request.sandbox_id(), pod, options_.offer));
  if (of_pod) {
    ASSIGN_OR_RETURN(const VolumeRecord known, pods_->FindVolume(pod, request.host_volume_id()));
    // It is noted before the sandboxes are looked at, so one that begins meanwhile grows it, too.
    RETURN_IF_ERROR(pods_->NoteGrowth(pod, known.target));
    ASSIGN_OR_RETURN(const bool in_sandbox, IsInSandbox(pod, known.target));
    if (!in_sandbox) return CheckGrowth(known, request.required_bytes());
  }
  ASSIGN_OR_RETURN(const HeldVolume held, HoldVolume(request));
  const std::string& sandbox_id = held.hold->record.sandbox_id;
  if (held.volume.state != VolumeState::kPublished) {
    return Error(StatusCode::kNotFound, "the volume {} is not published in sandbox {}",
                 Quote(request.host_volume_id()), Quote(sandbox_id));
  }
  auto grown = ExpandVolume(*held.hold->sandbox, held.volume, request.required_bytes());
  RETURN_IF_ERROR_WITH(grown, fmt::format("grow {} in sandbox {}", Quote(request.host_volume_id()),
                                          Quote(sandbox_id)));
  return grown;
}

}  // namespace berth::crust
