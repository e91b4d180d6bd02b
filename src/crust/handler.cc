#include "crust/handler.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "base/fault.h"
#include "base/ipc/crust_call.h"
#include "base/log.h"
#include "base/text.h"
#include "crust/bundle_check.h"
#include "crust/bundle_config.h"
#include "crust/device.h"
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

constexpr size_t kMaxVolumes = 256;

// Returns the lowest name of the form v0, v1, ... that no volume of the sandbox has.
std::string FindFreeName(const SandboxRecord& record) {
  for (size_t i = 0;; ++i) {
    std::string name = fmt::format("v{}", i);
    if (std::ranges::none_of(record.volumes, [&](const VolumeRecord& volume) {
          return volume.plan.name() == name;
        })) {
      return name;
    }
  }
}

std::string ResolveFolder(const std::string& folder) {
  std::error_code error;
  const auto path = std::filesystem::weakly_canonical(folder, error);
  return error ? folder : path.string();
}

}  // namespace

StatusOr<std::unique_ptr<Handler>> Handler::Start(HandlerOptions options, SandboxKind& kind) {
  ASSIGN_OR_RETURN(SandboxRecords records, SandboxRecords::Open(options.paths.RecordFolder()));
  for (const std::string& folder : {options.paths.PlanFolder(), options.paths.MarkFolder()}) {
    RETURN_IF_ERROR(platform::MakePrivateFolder(folder));
  }
  std::unique_ptr<Handler> handler(new Handler(std::move(options), kind, std::move(records)));
  RETURN_IF_ERROR(handler->LoadRecords());
  handler->watch_.Start();
  return handler;
}

Handler::Handler(HandlerOptions options, SandboxKind& kind, SandboxRecords records)
    : options_(std::move(options)),
      resolved_kubelet_folder_(ResolveFolder(options_.kubelet_folder)),
      kind_(kind),
      sandboxes_(options_.patience),
      records_(std::move(records)),
      steps_(sandboxes_, records_, options_.free_within, stopping_),
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

Status Handler::BeginSandbox(const rpc::SandboxId& id, const api::PodUid& pod,
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
    if (record.pod_uid == pod && record.bundle == bundle && !record.ending) return OkStatus();
    return Error(StatusCode::kFailedPrecondition, "another sandbox has the id {}",
                 Quote(sandbox_id));
  }
  ASSIGN_OR_RETURN(
      const Hold entry,
      sandboxes_.AddSandbox({.sandbox_id = sandbox_id, .pod_uid = pod, .bundle = bundle}));
  entry->wait = options_.check_interval;
  const Status begun = [&]() -> Status {
    RETURN_IF_ERROR(records_.WriteRecord(entry->record));
    ASSIGN_OR_RETURN(entry->sandbox, kind_.OpenSandbox(sandbox_id));
    return platform::WriteDurably<"crust.mark">(
        ipc::crust::MarkPath(options_.paths.run(), sandbox_id), "");
  }();
  if (begun.ok()) {
    watch_.AddAfter(sandbox_id, options_.check_interval);
    LOG_INFO("sandbox {} of pod {} is recorded", Quote(sandbox_id), pod);
    return OkStatus();
  }
  // The new sandbox has no volume yet, so it can be cleared.
  if (const Status undone = ClearSandbox(*entry); !undone.ok()) {
    LOG_WARNING("clear sandbox {}: {}", Quote(sandbox_id), base::ToString(undone));
    watch_.Add(sandbox_id);
  }
  return base::Annotate(begun, fmt::format("begin sandbox {}", Quote(sandbox_id)));
}

StatusOr<std::vector<platform::TargetPath>> Handler::ReadPlannedTargets(
    const api::PodUid& pod) const {
  const std::string path = ipc::crust::PlanPath(options_.paths.run(), pod.text());
  ASSIGN_OR_RETURN(const std::string text, platform::ReadFile(path, ipc::crust::kLargestPlan));
  const auto plan = ipc::ReadJson(base::Trim(text));
  const ipc::Strings* targets = plan.ok() ? plan->FindList(ipc::crust::kTargets) : nullptr;
  if (targets == nullptr) {
    return Error(StatusCode::kFailedPrecondition, "the plan {} names no targets: {}", Quote(path),
                 plan.failure().text);
  }
  return std::vector<platform::TargetPath>(targets->begin(), targets->end());
}

Status Handler::CheckPublish(const SandboxRecord& record,
                             const wire::RuntimePublishVolumeRequest& request) const {
  if (record.ending) {
    return Error(StatusCode::kFailedPrecondition, "sandbox {} has ended", Quote(record.sandbox_id));
  }
  const platform::TargetPath target(request.host_target_path());
  RETURN_IF_ERROR(CheckTarget(target, options_.kubelet_folder, record.pod_uid));
  ASSIGN_OR_RETURN(const std::vector<platform::TargetPath> planned,
                   ReadPlannedTargets(record.pod_uid));
  if (std::ranges::find(planned, target) != planned.end()) return OkStatus();
  return Error(
      StatusCode::kFailedPrecondition,
      "target path {} is not in the plan of pod {}, so containers would not get the volume", target,
      record.pod_uid);
}

StatusOr<wire::RuntimePublishVolumeResponse> Handler::RuntimePublishVolume(
    const wire::RuntimePublishVolumeRequest& request) {
  ASSIGN_OR_RETURN(const Hold hold, HoldSandbox(request.sandbox_id()));
  SandboxRecord& record = hold->record;
  const platform::TargetPath target(request.host_target_path());
  const std::string context =
      fmt::format("publish {} in sandbox {}", Quote(request.host_volume_id().substr(0, 512)),
                  Quote(record.sandbox_id));
  const Status published = [&]() -> Status {
    RETURN_IF_ERROR(CheckPublish(record, request));
    VolumeRecord* known = record.FindTarget(target);
    std::string name = known != nullptr ? std::string(known->plan.name()) : FindFreeName(record);
    ASSIGN_OR_RETURN(MountPlan plan, MakePlan(request, options_.offer, std::move(name)));
    if (known != nullptr) {
      if (known->state == VolumeState::kUnpublishing) {
        return Error(StatusCode::kFailedPrecondition, "the volume at {} is being unpublished",
                     target);
      }
      if (IsSame(known->plan, plan)) {
        RETURN_IF_ERROR(
            steps_.RecordOtherPath(*hold, *known, request.host_volume_id(), std::move(plan)));
        return steps_.PublishAgain(*hold, *known);
      }
      if (known->state == VolumeState::kPublished) {
        return Error(StatusCode::kFailedPrecondition,
                     "another volume is published at {}, or the same one in another way", target);
      }
      // An earlier publish failed and this one has other arguments. The earlier one may have
      // mounted the volume, so it is unpublished first.
      RETURN_IF_ERROR(steps_.UnpublishVolume(*hold, target));
    }
    if (record.volumes.size() >= kMaxVolumes) {
      return Error(StatusCode::kResourceExhausted, "the sandbox has {} volumes already",
                   record.volumes.size());
    }
    return steps_.PublishNew(
        *hold,
        {.host_volume_id = request.host_volume_id(), .target = target, .plan = std::move(plan)});
  }();
  RETURN_IF_ERROR_WITH(published, context);
  return wire::RuntimePublishVolumeResponse();
}

StatusOr<wire::RuntimeUnpublishVolumeResponse> Handler::RuntimeUnpublishVolume(
    const wire::RuntimeUnpublishVolumeRequest& request) {
  const platform::TargetPath target(request.host_target_path());
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

Status Handler::EndSandbox(const std::string& sandbox_id) {
  StatusOr<Hold> hold = HoldSandbox(sandbox_id, {.interrupt = true});
  if (hold.status().code() == StatusCode::kNotFound) return OkStatus();
  RETURN_IF_ERROR(hold);
  const Status ended = ClearSandbox(**hold);
  // watch_ unpublishes the volumes that are left.
  if (!ended.ok()) watch_.Add(sandbox_id);
  return base::Annotate(ended, fmt::format("end sandbox {}", Quote(sandbox_id)));
}

Status Handler::ClearSandbox(Entry& entry) {
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
    const Status gone = steps_.UnpublishVolume(entry, target);
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
  return Outcome::From(ClearSandbox(entry));
}

StatusOr<CreateReply> Handler::CreateContainer(const CreateRequest& request) {
  // A container waits longer, because another call may hold the sandbox while it grows a file
  // system.
  ASSIGN_OR_RETURN(const Hold hold,
                   HoldSandbox(request.sandbox_id, {.patience = options_.container_patience}));
  SandboxRecord& record = hold->record;
  if (record.pod_uid != request.pod_uid || record.ending) {
    return Error(StatusCode::kFailedPrecondition, "sandbox {} {}", Quote(record.sandbox_id),
                 record.ending ? "has ended" : "belongs to another pod");
  }
  // The targets come from the plan first, because it also names volumes that are not published yet.
  // A container must not get the host's plain folder in their place.
  ASSIGN_OR_RETURN(std::vector<platform::TargetPath> targets, ReadPlannedTargets(record.pod_uid));
  for (const VolumeRecord& volume : record.volumes) {
    if (std::ranges::find(targets, volume.target) == targets.end()) {
      targets.push_back(volume.target);
    }
  }
  std::vector<KnownTarget> known;
  for (const platform::TargetPath& target : targets) {
    std::string_view rest;
    const bool below = IsBelow(target.text(), options_.kubelet_folder, rest);
    known.push_back(
        {.path = target.text(),
         .resolved = below ? resolved_kubelet_folder_ + "/" + std::string(rest) : target.text()});
  }
  ASSIGN_OR_RETURN(base::Json config, ReadConfig(request.config));
  ASSIGN_OR_RETURN(
      const std::vector<DeferredMount> mounts,
      FindDeferredMounts(config, known, ipc::crust::GraftFolder(options_.paths.run())));
  CreateReply reply{.count = mounts.size()};
  for (size_t i = 0; i < mounts.size(); ++i) {
    const platform::TargetPath& target = targets[mounts[i].target];
    VolumeRecord* volume = record.FindTarget(target);
    if (volume == nullptr || volume->state != VolumeState::kPublished) {
      return Error(StatusCode::kFailedPrecondition,
                   "the deferred volume at {} is not in sandbox {} yet", target,
                   Quote(record.sandbox_id));
    }
    SetSource(config, mounts[i].mount, ipc::crust::GraftPoint(options_.paths.run(), i));
    if (i < request.from || i - request.from >= request.most) continue;
    StatusOr<Graft> graft = MakeGraft(*hold, *volume, mounts[i].sub_path);
    RETURN_IF_ERROR_WITH(graft, fmt::format("give a container the volume at {}", target));
    reply.grafts.push_back(*std::move(graft));
  }
  if (!mounts.empty() && request.from == 0) reply.config = base::json::Dump(config);
  return reply;
}

StatusOr<Graft> Handler::MakeGraft(Entry& entry, VolumeRecord& volume,
                                   const std::string& sub_path) {
  if (sub_path.size() > 4095) {
    return Error(StatusCode::kInvalidArgument, "the subPath has {} bytes", sub_path.size());
  }
  if (!sub_path.empty() && !options_.offer.Has(wire::RuntimeCapability::RPC::SUBPATH)) {
    return Error(StatusCode::kFailedPrecondition, "this handler does not offer subPath");
  }
  RETURN_IF_ERROR(base::FaultPoint<"crust.graft">());
  StatusOr<Graft> graft = entry.sandbox->MakeGraft(volume.plan, sub_path);
  if (graft.status().code() != StatusCode::kFailedPrecondition) return graft;
  // The sandbox lost the mount, because its namespace was removed. So the volume is mounted
  // again from its plan.
  LOG_WARNING("mount {} again in sandbox {}: {}", Quote(volume.host_volume_id),
              Quote(entry.record.sandbox_id), base::Message(graft.status()));
  RETURN_IF_ERROR(steps_.PublishAgain(entry, volume));
  return entry.sandbox->MakeGraft(volume.plan, sub_path);
}

StatusOr<wire::RuntimeGetCapabilitiesResponse> Handler::RuntimeGetCapabilities(
    const wire::RuntimeGetCapabilitiesRequest& request) {
  wire::RuntimeGetCapabilitiesResponse response;
  for (const auto type : options_.offer.capabilities) {
    response.add_capabilities()->mutable_rpc()->set_type(type);
  }
  return response;
}

StatusOr<wire::RuntimeGetSupportedFileSystemsResponse> Handler::RuntimeGetSupportedFileSystems(
    const wire::RuntimeGetSupportedFileSystemsRequest& request) {
  wire::RuntimeGetSupportedFileSystemsResponse response;
  for (const auto* list : {&options_.offer.file_systems, &options_.offer.shares}) {
    for (const std::string& type : *list) response.add_file_systems(type);
  }
  return response;
}

StatusOr<wire::RuntimeGetVolumeStatsResponse> Handler::RuntimeGetVolumeStats(
    const wire::RuntimeGetVolumeStatsRequest& request) {
  if (!options_.offer.Has(wire::RuntimeCapability::RPC::VOLUME_STATS)) {
    return Error(StatusCode::kUnimplemented, "this handler does not offer volume statistics");
  }
  ASSIGN_OR_RETURN(const Hold hold, HoldSandbox(request.sandbox_id()));
  const VolumeRecord* volume = hold->record.FindVolume(request.host_volume_id());
  if (volume == nullptr) {
    return Error(StatusCode::kNotFound, "sandbox {} has no volume {}", Quote(request.sandbox_id()),
                 Quote(request.host_volume_id().substr(0, 512)));
  }
  ASSIGN_OR_RETURN(const VolumeStats stats, hold->sandbox->ReadStats(volume->plan));
  wire::RuntimeGetVolumeStatsResponse response;
  const auto add = [&](wire::VolumeUsage::Unit unit, int64_t total, int64_t used,
                       int64_t available) {
    wire::VolumeUsage* usage = response.add_usage();
    usage->set_unit(unit);
    usage->set_total(total);
    usage->set_used(used);
    usage->set_available(available);
  };
  if (const auto& usage = stats.usage; usage.has_value()) {
    add(wire::VolumeUsage::BYTES, usage->total_bytes, usage->used_bytes, usage->available_bytes);
    add(wire::VolumeUsage::INODES, usage->total_inodes, usage->used_inodes,
        usage->available_inodes);
  }
  response.mutable_volume_condition()->set_abnormal(stats.abnormal);
  response.mutable_volume_condition()->set_message(stats.condition);
  return response;
}

StatusOr<wire::RuntimeExpandVolumeResponse> Handler::RuntimeExpandVolume(
    const wire::RuntimeExpandVolumeRequest& request) {
  if (!options_.offer.Has(wire::RuntimeCapability::RPC::VOLUME_RESIZE)) {
    return Error(StatusCode::kFailedPrecondition,
                 "this handler does not offer the expansion of volumes");
  }
  ASSIGN_OR_RETURN(const Hold hold, HoldSandbox(request.sandbox_id()));
  const VolumeRecord* volume = hold->record.FindVolume(request.host_volume_id());
  if (volume == nullptr || volume->state != VolumeState::kPublished) {
    return Error(StatusCode::kNotFound, "sandbox {} has no volume {}", Quote(request.sandbox_id()),
                 Quote(request.host_volume_id().substr(0, 512)));
  }
  const Device& device = volume->plan.device;
  int64_t size = 0;
  if (device.block) {
    ASSIGN_OR_RETURN(size, ReadDeviceSize(device));
    if (size < request.required_bytes()) {
      // The device may still grow, so the caller should try again. FAILED_PRECONDITION would be
      // final.
      return Error(StatusCode::kUnavailable,
                   "device {} has {} bytes, but {} are requested: the device has to grow first",
                   Quote(device.source), size, request.required_bytes());
    }
  }
  StatusOr<int64_t> capacity = hold->sandbox->ExpandVolume(volume->plan);
  RETURN_IF_ERROR_WITH(capacity,
                       fmt::format("grow {} in sandbox {}", Quote(request.host_volume_id()),
                                   Quote(request.sandbox_id())));
  wire::RuntimeExpandVolumeResponse response;
  // For a block device the capacity is the device's size, because a file system uses some of the
  // device for itself.
  response.set_capacity_bytes(device.block ? size : *capacity);
  return response;
}

}  // namespace berth::crust
