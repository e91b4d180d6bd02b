#include "crust/handler.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "base/fault.h"
#include "base/ipc/crust_call.h"
#include "base/log.h"
#include "base/text.h"
#include "crust/bundle_config.h"
#include "crust/bundle_look.h"
#include "crust/device.h"
#include "platform/files/durable_file.h"

namespace berth::crust {
namespace {

namespace ipc = base::ipc;
using base::Error;
using base::OkStatus;
using base::Quote;
using base::Status;
using base::StatusCode;
using base::StatusOr;

constexpr size_t kMostVolumes = 256;

// The lowest name that no volume of the sandbox has.
std::string FreeName(const SandboxRecord& record) {
  for (size_t i = 0;; ++i) {
    std::string name = fmt::format("v{}", i);
    if (std::ranges::none_of(record.volumes, [&](const VolumeRecord& volume) {
          return volume.plan.name() == name;
        })) {
      return name;
    }
  }
}

std::string Resolved(const std::string& folder) {
  std::error_code error;
  const auto path = std::filesystem::weakly_canonical(folder, error);
  return error ? folder : path.string();
}

}  // namespace

StatusOr<std::unique_ptr<Handler>> Handler::Start(HandlerOptions options, SandboxKind& kind) {
  ASSIGN_OR_RETURN(SandboxRecords records, SandboxRecords::Open(options.paths.Records()));
  for (const std::string& folder : {options.paths.Plans(), options.paths.Marks()}) {
    RETURN_IF_ERROR(platform::MakeFolders(folder, 0700));
  }
  std::unique_ptr<Handler> handler(new Handler(std::move(options), kind, std::move(records)));
  RETURN_IF_ERROR(handler->LoadRecords());
  handler->watch_.Start();
  return handler;
}

Handler::Handler(HandlerOptions options, SandboxKind& kind, SandboxRecords records)
    : options_(std::move(options)),
      resolved_kubelet_folder_(Resolved(options_.kubelet_folder)),
      kind_(kind),
      sandboxes_(options_.patience),
      records_(std::move(records)),
      steps_(sandboxes_, records_, options_.free_within, stopping_),
      watch_({.name = "crust-watch",
              .workers = 2,
              .retry_start = std::chrono::seconds(1),
              .retry_max = std::chrono::seconds(60)},
             [this](const std::string& id) { return CheckBundle(id); }) {}

Handler::~Handler() {
  stopping_ = true;
  watch_.Stop();
}

Status Handler::LoadRecords() {
  ASSIGN_OR_RETURN(SandboxRecords::Loaded known, records_.Load());
  for (SandboxRecord& record : known.records) {
    const std::string id = record.sandbox_id;
    ASSIGN_OR_RETURN(const Hold entry, sandboxes_.AddSandbox(std::move(record)));
    // A sandbox that cannot be opened now is opened when a call needs it, so it does not block the
    // others.
    if (auto sandbox = kind_.Open(id); sandbox.ok()) {
      entry->sandbox = *std::move(sandbox);
    } else {
      LOG_ERROR("open sandbox {}: {}", Quote(id), base::ToString(sandbox.status()));
    }
    RETURN_IF_ERROR(
        platform::WriteDurably<"crust.mark">(ipc::crust::MarkPath(options_.paths.run(), id), ""));
    for (const VolumeRecord& volume : entry->record.volumes) {
      if (volume.state != VolumeState::kFailed) sandboxes_.NoteUse(id, volume);
    }
    LOG_INFO("sandbox {} of pod {} has {} volumes", Quote(id), Quote(entry->record.pod_uid),
             entry->record.volumes.size());
    watch_.Add(id);
  }
  const std::set<std::string> unreadable(known.unreadable.begin(), known.unreadable.end());
  ASSIGN_OR_RETURN(const auto marks, platform::ListFolder(options_.paths.Marks()));
  for (const std::string& mark : marks) {
    if (sandboxes_.Contains(mark)) continue;
    if (unreadable.contains(mark)) {
      unreadable_.insert(mark);  // marks exist only for sandboxes of this boot
    } else {
      // The sandbox has ended, so berth-oci no longer needs the mark.
      unlink((options_.paths.Marks() + "/" + mark).c_str());
    }
  }
  return OkStatus();
}

StatusOr<Handler::Hold> Handler::HoldSandbox(const std::string& sandbox_id,
                                             const SandboxTable::Wish& wish) {
  RETURN_IF_ERROR(CheckSandboxId(sandbox_id));
  // The sandbox's volumes may be in use, so the answer is not NOT_FOUND, which would mean that the
  // sandbox has ended.
  if (unreadable_.contains(sandbox_id)) {
    return Error(
        StatusCode::kInternal,
        "the record of sandbox {} in {} cannot be read: what is in the sandbox stays there "
        "until this machine is started anew",
        Quote(sandbox_id), Quote(options_.paths.Records()));
  }
  ASSIGN_OR_RETURN(Hold hold, sandboxes_.HoldSandbox(sandbox_id, wish));
  if (hold->sandbox == nullptr) {
    StatusOr<std::unique_ptr<Sandbox>> sandbox = kind_.Open(sandbox_id);
    // The error is not NOT_FOUND, because the caller would then treat the sandbox as ended.
    if (!sandbox.ok()) {
      return Error(StatusCode::kInternal, "open sandbox {}: {}", Quote(sandbox_id),
                   base::Message(sandbox.status()));
    }
    hold->sandbox = *std::move(sandbox);
  }
  return hold;
}

Status Handler::BeginSandbox(const std::string& sandbox_id, const std::string& pod_uid,
                             const std::string& bundle) {
  RETURN_IF_ERROR(CheckSandboxId(sandbox_id));
  RETURN_IF_ERROR(CheckPodUid(pod_uid));
  if (!bundle.starts_with('/') || bundle.size() > 4095 || !IsFolder(bundle)) {
    return Error(StatusCode::kInvalidArgument, "bundle {} is no folder", Quote(bundle));
  }
  if (StatusOr<Hold> known = HoldSandbox(sandbox_id);
      known.status().code() != StatusCode::kNotFound) {
    RETURN_IF_ERROR(known);
    const SandboxRecord& record = (*known)->record;
    if (record.pod_uid == pod_uid && record.bundle == bundle && !record.ending) return OkStatus();
    return Error(StatusCode::kFailedPrecondition, "there is a sandbox {} already",
                 Quote(sandbox_id));
  }
  ASSIGN_OR_RETURN(
      const Hold entry,
      sandboxes_.AddSandbox({.sandbox_id = sandbox_id, .pod_uid = pod_uid, .bundle = bundle}));
  entry->wait = options_.look_every;
  const Status begun = [&]() -> Status {
    RETURN_IF_ERROR(records_.Write(entry->record));
    ASSIGN_OR_RETURN(entry->sandbox, kind_.Open(sandbox_id));
    return platform::WriteDurably<"crust.mark">(
        ipc::crust::MarkPath(options_.paths.run(), sandbox_id), "");
  }();
  if (begun.ok()) {
    watch_.AddAfter(sandbox_id, options_.look_every);
    LOG_INFO("sandbox {} of pod {} begins", Quote(sandbox_id), Quote(pod_uid));
    return OkStatus();
  }
  // The new sandbox has no volume yet, so it can be cleared.
  if (const Status undone = ClearSandbox(*entry); !undone.ok()) {
    LOG_WARNING("{}", base::ToString(undone));
    watch_.Add(sandbox_id);
  }
  return base::Annotate(begun, fmt::format("begin sandbox {}", Quote(sandbox_id)));
}

StatusOr<std::vector<std::string>> Handler::PlannedTargets(const std::string& pod_uid) const {
  const std::string path = ipc::crust::PlanPath(options_.paths.run(), pod_uid);
  ASSIGN_OR_RETURN(const std::string text, platform::ReadFile(path, ipc::crust::kLargestPlan));
  const auto plan = ipc::ReadJson(base::Trim(text));
  const ipc::Strings* targets = plan.ok() ? plan->FindList(ipc::crust::kTargets) : nullptr;
  if (targets == nullptr) {
    return Error(StatusCode::kFailedPrecondition, "the plan {} names no targets: {}", Quote(path),
                 plan.failure().text);
  }
  return *targets;
}

Status Handler::CheckPublish(const SandboxRecord& record,
                             const wire::RuntimePublishVolumeRequest& request) const {
  if (record.ending) {
    return Error(StatusCode::kFailedPrecondition, "sandbox {} is over", Quote(record.sandbox_id));
  }
  const std::string& target = request.host_target_path();
  RETURN_IF_ERROR(CheckTarget(target, options_.kubelet_folder, record.pod_uid));
  ASSIGN_OR_RETURN(const std::vector<std::string> planned, PlannedTargets(record.pod_uid));
  if (std::ranges::find(planned, target) != planned.end()) return OkStatus();
  return Error(StatusCode::kFailedPrecondition,
               "target path {} is not in the plan of pod {}: containers would not be given it",
               Quote(target), Quote(record.pod_uid));
}

StatusOr<wire::RuntimePublishVolumeResponse> Handler::RuntimePublishVolume(
    const wire::RuntimePublishVolumeRequest& request) {
  ASSIGN_OR_RETURN(const Hold hold, HoldSandbox(request.sandbox_id()));
  SandboxRecord& record = hold->record;
  const std::string& target = request.host_target_path();
  const std::string context =
      fmt::format("publish {} in sandbox {}", Quote(request.host_volume_id().substr(0, 512)),
                  Quote(record.sandbox_id));
  const Status published = [&]() -> Status {
    RETURN_IF_ERROR(CheckPublish(record, request));
    VolumeRecord* known = record.FindTarget(target);
    std::string name = known != nullptr ? std::string(known->plan.name()) : FreeName(record);
    ASSIGN_OR_RETURN(MountPlan plan, MakePlan(request, options_.offer, std::move(name)));
    if (known != nullptr) {
      if (known->state == VolumeState::kUnpublishing) {
        return Error(StatusCode::kFailedPrecondition, "the volume at {} is being taken off",
                     Quote(target));
      }
      if (IsSame(known->plan, plan)) {
        RETURN_IF_ERROR(
            steps_.RecordOtherPath(*hold, *known, request.host_volume_id(), std::move(plan)));
        return steps_.PublishAgain(*hold, *known);
      }
      if (known->state == VolumeState::kPublished) {
        return Error(StatusCode::kFailedPrecondition,
                     "another volume is published at {}, or the same one in another way",
                     Quote(target));
      }
      // An earlier publish failed and this one has other arguments. The volume may be half mounted,
      // so it is taken off first.
      RETURN_IF_ERROR(steps_.Unpublish(*hold, target));
    }
    if (record.volumes.size() >= kMostVolumes) {
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
  if (request.sandbox_id().empty()) {
    wire::RuntimeUnpublishVolumeRequest one = request;
    const auto is_meant = [&](std::string_view pod_uid) {
      return CheckTarget(request.host_target_path(), options_.kubelet_folder, pod_uid).ok();
    };
    for (const std::string& id : sandboxes_.IdsWhere(is_meant)) {
      one.set_sandbox_id(id);
      RETURN_IF_ERROR(RuntimeUnpublishVolume(one));
    }
    return wire::RuntimeUnpublishVolumeResponse();
  }
  StatusOr<Hold> hold = HoldSandbox(request.sandbox_id(), {.ends = true});
  if (hold.status().code() == StatusCode::kNotFound) return wire::RuntimeUnpublishVolumeResponse();
  RETURN_IF_ERROR(hold);
  const VolumeRecord* volume = (*hold)->record.FindTarget(request.host_target_path());
  if (volume == nullptr) return wire::RuntimeUnpublishVolumeResponse();
  if (volume->host_volume_id != request.host_volume_id()) {
    return Error(StatusCode::kFailedPrecondition, "the volume at {} is {}, not {}",
                 Quote(request.host_target_path()), Quote(volume->host_volume_id),
                 Quote(request.host_volume_id().substr(0, 512)));
  }
  RETURN_IF_ERROR_WITH(steps_.Unpublish(**hold, request.host_target_path()),
                       fmt::format("unpublish {} in sandbox {}", Quote(request.host_volume_id()),
                                   Quote(request.sandbox_id())));
  return wire::RuntimeUnpublishVolumeResponse();
}

Status Handler::EndSandbox(const std::string& sandbox_id) {
  StatusOr<Hold> hold = HoldSandbox(sandbox_id, {.ends = true});
  if (hold.status().code() == StatusCode::kNotFound) return OkStatus();
  RETURN_IF_ERROR(hold);
  const Status ended = ClearSandbox(**hold);
  // The watch takes off what is left.
  if (!ended.ok()) watch_.Add(sandbox_id);
  return base::Annotate(ended, fmt::format("end sandbox {}", Quote(sandbox_id)));
}

Status Handler::ClearSandbox(Entry& entry) {
  SandboxRecord& record = entry.record;
  if (!record.ending) {
    record.ending = true;
    RETURN_IF_ERROR(records_.Write(record));
  }
  // A volume that cannot be taken off does not block the others.
  Status first = OkStatus();
  std::vector<std::string> targets;
  for (const VolumeRecord& volume : record.volumes) targets.push_back(volume.target);
  for (const std::string& target : targets) {
    const Status gone = steps_.Unpublish(entry, target);
    if (first.ok()) first = gone;
  }
  RETURN_IF_ERROR(first);
  // The sandbox may exist although an earlier try to open it failed.
  if (entry.sandbox == nullptr) {
    ASSIGN_OR_RETURN(entry.sandbox, kind_.Open(record.sandbox_id));
  }
  RETURN_IF_ERROR(entry.sandbox->End());
  entry.sandbox.reset();
  RETURN_IF_ERROR(records_.Remove(record.sandbox_id));
  RETURN_IF_ERROR(platform::RemoveDurably<"crust.mark">(
      ipc::crust::MarkPath(options_.paths.run(), record.sandbox_id)));
  sandboxes_.ForgetSandbox(record.sandbox_id);
  LOG_INFO("sandbox {} of pod {} is over", Quote(record.sandbox_id), Quote(record.pod_uid));
  return OkStatus();
}

base::KeyedWorkers::Outcome Handler::CheckBundle(const std::string& sandbox_id) {
  using Outcome = base::KeyedWorkers::Outcome;
  StatusOr<Hold> hold = HoldSandbox(sandbox_id);
  if (hold.status().code() == StatusCode::kNotFound) return Outcome::Done();
  if (hold.status().code() == StatusCode::kAborted) return Outcome::After(options_.look_every);
  if (!hold.ok()) return Outcome::From(hold.status());
  Entry& entry = **hold;
  if (!entry.record.ending) {
    const auto next = TimeToNextLook(entry, options_.paths.run(), options_.look_every);
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
    return Error(StatusCode::kFailedPrecondition, "sandbox {} is {}", Quote(record.sandbox_id),
                 record.ending ? "over" : "another pod's");
  }
  // The targets come from the plan first, because it also names volumes that are not published yet.
  // A container must not get the host's plain folder in their place.
  ASSIGN_OR_RETURN(std::vector<std::string> targets, PlannedTargets(record.pod_uid));
  for (const VolumeRecord& volume : record.volumes) {
    if (std::ranges::find(targets, volume.target) == targets.end()) {
      targets.push_back(volume.target);
    }
  }
  std::vector<KnownTarget> known;
  for (const std::string& target : targets) {
    std::string_view rest;
    const bool below = IsBelow(target, options_.kubelet_folder, rest);
    known.push_back(
        {.path = target,
         .resolved = below ? resolved_kubelet_folder_ + "/" + std::string(rest) : target});
  }
  ASSIGN_OR_RETURN(base::Json config, ReadConfig(request.config));
  ASSIGN_OR_RETURN(const std::vector<DeferredMount> mounts,
                   FindDeferred(config, known, ipc::crust::GraftFolder(options_.paths.run())));
  CreateReply reply{.count = mounts.size()};
  for (size_t i = 0; i < mounts.size(); ++i) {
    const std::string& target = targets[mounts[i].target];
    VolumeRecord* volume = record.FindTarget(target);
    if (volume == nullptr || volume->state != VolumeState::kPublished) {
      return Error(StatusCode::kFailedPrecondition,
                   "the deferred volume at {} is not in sandbox {} yet", Quote(target),
                   Quote(record.sandbox_id));
    }
    SetSource(config, mounts[i].mount, ipc::crust::GraftPoint(options_.paths.run(), i));
    if (i < request.from || i - request.from >= request.most) continue;
    StatusOr<Graft> graft = ForContainer(*hold, *volume, mounts[i].sub_path);
    RETURN_IF_ERROR_WITH(graft, fmt::format("give a container the volume at {}", Quote(target)));
    reply.grafts.push_back(*std::move(graft));
  }
  if (!mounts.empty() && request.from == 0) reply.config = base::json::Dump(config);
  return reply;
}

StatusOr<Graft> Handler::ForContainer(Entry& entry, VolumeRecord& volume,
                                      const std::string& sub_path) {
  if (sub_path.size() > 4095) {
    return Error(StatusCode::kInvalidArgument, "the subPath has {} bytes", sub_path.size());
  }
  if (!sub_path.empty() && !options_.offer.Has(wire::RuntimeCapability::RPC::SUBPATH)) {
    return Error(StatusCode::kFailedPrecondition, "this handler gives no subPaths");
  }
  RETURN_IF_ERROR(base::FaultPoint<"crust.graft">());
  StatusOr<Graft> graft = entry.sandbox->ForContainer(volume.plan, sub_path);
  if (graft.status().code() != StatusCode::kFailedPrecondition) return graft;
  // The sandbox lost the mount (somebody removed its namespace), so it is mounted again from the
  // plan.
  LOG_WARNING("{}: mounting it again", base::Message(graft.status()));
  RETURN_IF_ERROR(steps_.PublishAgain(entry, volume));
  return entry.sandbox->ForContainer(volume.plan, sub_path);
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
    return Error(StatusCode::kUnimplemented, "this handler gives no stats");
  }
  ASSIGN_OR_RETURN(const Hold hold, HoldSandbox(request.sandbox_id()));
  const VolumeRecord* volume = hold->record.FindVolume(request.host_volume_id());
  if (volume == nullptr) {
    return Error(StatusCode::kNotFound, "sandbox {} has no volume {}", Quote(request.sandbox_id()),
                 Quote(request.host_volume_id().substr(0, 512)));
  }
  ASSIGN_OR_RETURN(const VolumeStats stats, hold->sandbox->Stats(volume->plan));
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
    return Error(StatusCode::kFailedPrecondition, "this handler grows no volumes");
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
    ASSIGN_OR_RETURN(size, DeviceSize(device));
    if (size < request.required_bytes()) {
      // The device may still grow, so the caller should try again. FAILED_PRECONDITION would be
      // final.
      return Error(StatusCode::kUnavailable,
                   "device {} has {} bytes, and {} are asked for: it has to grow first",
                   Quote(device.source), size, request.required_bytes());
    }
  }
  StatusOr<int64_t> capacity = hold->sandbox->Expand(volume->plan);
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
