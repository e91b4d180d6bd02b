#include "crust/kata/kata_calls.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/log.h"
#include "crust/device.h"
#include "crust/kata/device_use.h"
#include "crust/kata/kata_offer.h"
#include "crust/kata/shim_client.h"
#include "crust/pods/placeholder.h"
#include "platform/file_systems/file_system.h"

namespace berth::crust::kata {
namespace {

using base::Error;
using base::OkStatus;
using base::Quote;
using base::Status;
using base::StatusCode;
using base::StatusOr;
using platform::TargetPath;
using Capability = wire::RuntimeCapability::RPC;

// How long a device may be open elsewhere while it is published, because udev and the driver's
// tools look at a device for a moment.
constexpr std::chrono::seconds kLook(3);

std::string QuoteId(std::string_view host_volume_id) {
  return Quote(host_volume_id.substr(0, 512));
}

}  // namespace

StatusOr<std::unique_ptr<KataCalls>> KataCalls::Start(KataCallsOptions options,
                                                      platform::Mounter& mounter) {
  ASSIGN_OR_RETURN(std::unique_ptr<VolumeTable> table, VolumeTable::Open(options.data_folder));
  std::unique_ptr<KataCalls> calls(new KataCalls(std::move(options), mounter, std::move(table)));
  // Kata's files do not outlive a boot, so a pod without any is of an earlier one.
  ASSIGN_OR_RETURN(const std::vector<TargetPath> told, calls->volumes_.ListTargets());
  calls->table_->SortOutUnreadable([&](const api::PodUid& pod) {
    return std::ranges::any_of(told, [&](const TargetPath& target) {
      return target.text().find("/pods/" + pod.text() + "/") != std::string::npos;
    });
  });
  for (const api::PodUid& pod : calls->table_->ListPods()) calls->watch_.Add(pod.text());
  calls->watch_.Start();
  return calls;
}

KataCalls::KataCalls(KataCallsOptions options, platform::Mounter& mounter,
                     std::unique_ptr<VolumeTable> table)
    : options_(std::move(options)),
      mounter_(mounter),
      sandboxes_(options_.kata_run, options_.bundles),
      volumes_(sandboxes_.VolumeFolder()),
      table_(std::move(table)),
      watch_({.name = "kata-watch",
              .workers = 2,
              .retry_start = std::chrono::seconds(1),
              .retry_max = std::chrono::seconds(60)},
             [this](const std::string& pod) { return ClearPod(pod); }) {}

KataCalls::~KataCalls() { watch_.Stop(); }

StatusOr<wire::RuntimeGetCapabilitiesResponse> KataCalls::RuntimeGetCapabilities(
    const wire::RuntimeGetCapabilitiesRequest& request) {
  return ListCapabilities(options_.offer);
}

StatusOr<wire::RuntimeGetSupportedFileSystemsResponse> KataCalls::RuntimeGetSupportedFileSystems(
    const wire::RuntimeGetSupportedFileSystemsRequest& request) {
  return ListFileSystems(options_.offer);
}

StatusOr<KataVolume> KataCalls::ReadPublish(
    const wire::RuntimePublishVolumeRequest& request) const {
  KataVolume volume{.pod = api::PodUid(request.pod_uid())};
  KataRuntime runtime = options_.runtime;
  ASSIGN_OR_RETURN(const bool of_pod, NamesPod(request.sandbox_id(), volume.pod, options_.offer));
  if (!of_pod) {
    RETURN_IF_ERROR(CheckSandboxId(request.sandbox_id()));
    volume.sandbox = rpc::SandboxId(request.sandbox_id());
    ASSIGN_OR_RETURN(const KataSandbox sandbox, sandboxes_.FindSandbox(volume.sandbox));
    volume.pod = sandbox.pod;
    runtime = sandbox.runtime;
  }
  const TargetPath target(request.host_target_path());
  RETURN_IF_ERROR(CheckTarget(target, options_.kubelet_folder, volume.pod));
  ASSIGN_OR_RETURN(MountPlan plan, MakePlan(request, options_.offer));
  RETURN_IF_ERROR(CheckKataCanMount(request, plan, runtime));
  volume.volume = {
      .host_volume_id = request.host_volume_id(), .target = target, .plan = std::move(plan)};
  return volume;
}

StatusOr<wire::RuntimePublishVolumeResponse> KataCalls::RuntimePublishVolume(
    const wire::RuntimePublishVolumeRequest& request) {
  const Status published = [&]() -> Status {
    ASSIGN_OR_RETURN(KataVolume volume, ReadPublish(request));
    ASSIGN_OR_RETURN(const auto lock, table_->LockPod(volume.pod, options_.patience));
    return PublishVolume(std::move(volume));
  }();
  RETURN_IF_ERROR_WITH(published, fmt::format("publish {}", QuoteId(request.host_volume_id())));
  return wire::RuntimePublishVolumeResponse();
}

Status KataCalls::CheckRepeated(const KataVolume& known, const KataVolume& volume) const {
  const TargetPath& target = known.volume.target;
  if (known.volume.state == VolumeState::kUnpublishing) {
    return Error(StatusCode::kFailedPrecondition, "the volume at {} is being unpublished", target);
  }
  if (known.sandbox != volume.sandbox) {
    return Error(StatusCode::kFailedPrecondition, "the volume at {} is published for {}", target,
                 known.sandbox.empty() ? std::string("each sandbox of the pod")
                                       : fmt::format("sandbox {}", known.sandbox));
  }
  if (known.volume.host_volume_id == volume.volume.host_volume_id &&
      IsSame(known.volume.plan, volume.volume.plan)) {
    return OkStatus();
  }
  return Error(StatusCode::kFailedPrecondition,
               "another volume is published at {}, or the same one in another way", target);
}

Status KataCalls::CheckDevice(KataVolume& volume) const {
  const Device& device = volume.volume.plan.device;
  // Others that only read the device have it open.
  if (!table_->IsUsedElsewhere(volume)) RETURN_IF_ERROR(WaitUntilDeviceIsUnused(device, kLook));
  ASSIGN_OR_RETURN(const auto signature, platform::ProbeSignature(device.source));
  const std::string_view type = volume.volume.plan.fs_type();
  if (!signature.has_value() || signature->type != type) {
    return Error(StatusCode::kFailedPrecondition, "device {} has {}, and not a file system {}",
                 Quote(device.source),
                 signature.has_value() ? Quote(signature->type) : std::string("no file system"),
                 Quote(type));
  }
  // This fails if the path leads to another device than before.
  ASSIGN_OR_RETURN(volume.device_bytes, ReadDeviceSize(device));
  return OkStatus();
}

Status KataCalls::TellKata(const KataVolume& volume) {
  const TargetPath& target = volume.volume.target;
  if (volume.sandbox.empty()) RETURN_IF_ERROR(MakePlaceholder(mounter_, target));
  return volumes_.WriteVolume(target, MakeMountInfo(volume.volume.plan));
}

Status KataCalls::PublishVolume(KataVolume volume) {
  const TargetPath target = volume.volume.target;
  std::optional<KataVolume> known = table_->FindTarget(target);
  if (known.has_value() && known->sandbox != volume.sandbox && !known->sandbox.empty() &&
      sandboxes_.IsGone(known->sandbox)) {
    RETURN_IF_ERROR_WITH(UnpublishVolume(*std::exchange(known, std::nullopt)),
                         "take it from a sandbox that has ended");
  }
  if (known.has_value()) {
    RETURN_IF_ERROR(CheckRepeated(*known, volume));
    volume.device_bytes = known->device_bytes;
    volume.grows_from = known->grows_from;
    // The device may be in use by now, so only what is missing is done.
    if (known->volume.state == VolumeState::kPublished) return TellKata(volume);
  }
  const Status made = [&]() -> Status {
    RETURN_IF_ERROR(table_->ReserveVolume(volume));
    ASSIGN_OR_RETURN(const platform::AtTarget at, platform::LookAtTarget(mounter_, target.text()));
    if (at == platform::AtTarget::kOther ||
        (at == platform::AtTarget::kPlaceholder && !volume.sandbox.empty())) {
      return Error(StatusCode::kFailedPrecondition, "something is mounted on the host at {}",
                   target);
    }
    ASSIGN_OR_RETURN(const bool told, volumes_.HasVolume(target));
    if (told && !known.has_value()) {
      return Error(StatusCode::kFailedPrecondition,
                   "Kata has been told of a volume at {} by another program", target);
    }
    RETURN_IF_ERROR(CheckDevice(volume));
    RETURN_IF_ERROR(table_->StoreVolume(volume));
    known = volume;  // from here on there may be something to undo
    RETURN_IF_ERROR(TellKata(volume));
    volume.volume.state = VolumeState::kPublished;
    return table_->StoreVolume(volume);
  }();
  if (made.ok()) {
    watch_.AddAfter(volume.pod.text(), options_.check_interval);
    LOG_INFO("the volume at {} of pod {} is published: Kata mounts it in the next container",
             target, volume.pod);
    return OkStatus();
  }
  // The caller may never unpublish a volume whose publish failed for good. After a time-out it
  // does, because the placeholder may still be mounted.
  if (made.code() == StatusCode::kDeadlineExceeded) return made;
  const Status undone =
      known.has_value() ? UnpublishVolume(volume) : table_->ForgetVolume(volume.pod, target);
  if (!undone.ok()) {
    LOG_WARNING("pod {}: {}", volume.pod, base::ToString(undone));
    watch_.Add(volume.pod.text());
  }
  return made;
}

StatusOr<wire::RuntimeUnpublishVolumeResponse> KataCalls::RuntimeUnpublishVolume(
    const wire::RuntimeUnpublishVolumeRequest& request) {
  const api::PodUid pod(request.pod_uid());
  const TargetPath target(request.host_target_path());
  if (!pod.empty()) {
    if (!request.sandbox_id().empty()) {
      return Error(StatusCode::kInvalidArgument, "the request names both a sandbox and a pod");
    }
    RETURN_IF_ERROR(CheckPodUid(pod));
    RETURN_IF_ERROR(CheckTarget(target, options_.kubelet_folder, pod));
  } else if (!request.sandbox_id().empty()) {
    RETURN_IF_ERROR(CheckSandboxId(request.sandbox_id()));
  }
  std::optional<KataVolume> known = table_->FindTarget(target);
  if (!known.has_value()) {
    if (!pod.empty()) RETURN_IF_ERROR(RemovePlaceholder(mounter_, target));
    return wire::RuntimeUnpublishVolumeResponse();
  }
  ASSIGN_OR_RETURN(const auto lock, table_->LockPod(known->pod, options_.patience));
  known = table_->FindTarget(target);
  const bool other =
      known.has_value() &&
      (pod.empty() ? known->sandbox.empty() || (!request.sandbox_id().empty() &&
                                                known->sandbox.text() != request.sandbox_id())
                   : !known->sandbox.empty());
  if (!known.has_value() || other) return wire::RuntimeUnpublishVolumeResponse();
  if (known->volume.host_volume_id != request.host_volume_id()) {
    return Error(StatusCode::kFailedPrecondition, "the volume at {} is {}, not {}", target,
                 Quote(known->volume.host_volume_id), QuoteId(request.host_volume_id()));
  }
  RETURN_IF_ERROR_WITH(UnpublishVolume(*known),
                       fmt::format("unpublish {}", Quote(request.host_volume_id())));
  return wire::RuntimeUnpublishVolumeResponse();
}

Status KataCalls::UnpublishVolume(KataVolume volume) {
  const TargetPath& target = volume.volume.target;
  if (volume.volume.state != VolumeState::kUnpublishing) {
    volume.volume.state = VolumeState::kUnpublishing;
    RETURN_IF_ERROR(table_->StoreVolume(volume));
  }
  RETURN_IF_ERROR(volumes_.RemoveVolume(target));
  if (volume.sandbox.empty()) RETURN_IF_ERROR(RemovePlaceholder(mounter_, target));
  // Kata takes the device out of the virtual machine when the container ends, or with it.
  if (!table_->IsUsedElsewhere(volume)) {
    RETURN_IF_ERROR(WaitUntilDeviceIsUnused(volume.volume.plan.device, options_.free_within));
  }
  RETURN_IF_ERROR(table_->ForgetVolume(volume.pod, target));
  LOG_INFO("the volume at {} of pod {} is unpublished", target, volume.pod);
  return OkStatus();
}

template <typename Request>
StatusOr<KataVolume> KataCalls::FindVolume(const Request& request) const {
  const api::PodUid pod(request.pod_uid());
  ASSIGN_OR_RETURN(const bool of_pod, NamesPod(request.sandbox_id(), pod, options_.offer));
  if (!of_pod) RETURN_IF_ERROR(CheckSandboxId(request.sandbox_id()));
  std::optional<KataVolume> found =
      table_->FindVolume(rpc::SandboxId(request.sandbox_id()), pod, request.host_volume_id());
  if (found.has_value()) return *std::move(found);
  return Error(StatusCode::kNotFound, "{} {} has no volume {}", of_pod ? "pod" : "sandbox",
               Quote(of_pod ? request.pod_uid() : request.sandbox_id()),
               QuoteId(request.host_volume_id()));
}

StatusOr<std::string> KataCalls::FindShim(const KataVolume& volume) const {
  ASSIGN_OR_RETURN(const std::vector<rpc::SandboxId> got,
                   volumes_.ListSandboxes(volume.volume.target));
  Status why = Error(StatusCode::kUnavailable, "no container has got the volume at {} yet",
                     volume.volume.target);
  for (const rpc::SandboxId& id : got) {
    if (sandboxes_.IsOfRust(id)) {
      why = Error(StatusCode::kFailedPrecondition,
                  "sandbox {} is run by Kata's Rust runtime, which gives no numbers of volumes and "
                  "does not let them grow",
                  id);
    } else if (!sandboxes_.IsGone(id)) {
      return sandboxes_.ShimSocket(id);
    }
  }
  return why;
}

StatusOr<wire::RuntimeGetVolumeStatsResponse> KataCalls::RuntimeGetVolumeStats(
    const wire::RuntimeGetVolumeStatsRequest& request) {
  if (!options_.offer.Has(Capability::VOLUME_STATS)) {
    return Error(StatusCode::kUnimplemented, "this handler does not offer volume statistics");
  }
  ASSIGN_OR_RETURN(const KataVolume volume, FindVolume(request));
  ASSIGN_OR_RETURN(const std::string shim, FindShim(volume));
  const std::string& id = volume.volume.host_volume_id;
  auto stats = AskForStats(shim, id, options_.stats_time);
  // A file system that hangs keeps the agent from answering.
  if (stats.status().code() == StatusCode::kDeadlineExceeded) {
    wire::RuntimeGetVolumeStatsResponse response;
    response.mutable_volume_condition()->set_abnormal(true);
    response.mutable_volume_condition()->set_message(
        fmt::format("the sandbox did not answer within {} ms", options_.stats_time.count()));
    return response;
  }
  // To the caller NOT_FOUND would mean that the volume is not published.
  if (stats.status().code() == StatusCode::kNotFound) {
    return Error(StatusCode::kUnavailable, "{}", base::Message(stats.status()));
  }
  RETURN_IF_ERROR_WITH(stats, fmt::format("numbers of {}", Quote(id)));
  return stats;
}

StatusOr<wire::RuntimeExpandVolumeResponse> KataCalls::RuntimeExpandVolume(
    const wire::RuntimeExpandVolumeRequest& request) {
  if (!options_.offer.Has(Capability::VOLUME_RESIZE)) {
    return Error(
        StatusCode::kFailedPrecondition,
        "this handler does not offer the expansion of volumes: Kata's agent does not let a "
        "mounted file system grow, so it grows when it is staged next");
  }
  ASSIGN_OR_RETURN(KataVolume volume, FindVolume(request));
  ASSIGN_OR_RETURN(const int64_t bytes, ReadDeviceSize(volume.volume.plan.device));
  if (bytes < request.required_bytes()) {
    return Error(StatusCode::kUnavailable, "device {} has {} bytes, and {} are required",
                 Quote(volume.volume.host_volume_id), bytes, request.required_bytes());
  }
  ASSIGN_OR_RETURN(const auto lock, table_->LockPod(volume.pod, options_.patience));
  ASSIGN_OR_RETURN(volume, FindVolume(request));
  if (bytes != volume.device_bytes) {
    RETURN_IF_ERROR_WITH(GrowVolume(volume, bytes),
                         fmt::format("grow {}", Quote(volume.volume.host_volume_id)));
  }
  wire::RuntimeExpandVolumeResponse response;
  response.set_capacity_bytes(bytes);
  return response;
}

Status KataCalls::GrowVolume(KataVolume volume, int64_t bytes) {
  ASSIGN_OR_RETURN(const std::string shim, FindShim(volume));
  const std::string& id = volume.volume.host_volume_id;
  const auto read_total = [&]() -> StatusOr<int64_t> {
    ASSIGN_OR_RETURN(const auto stats, AskForStats(shim, id, options_.stats_time));
    for (const wire::VolumeUsage& usage : stats.usage()) {
      if (usage.unit() == wire::VolumeUsage::BYTES) return usage.total();
    }
    return Error(StatusCode::kInternal, "Kata's shim gave no number of bytes");
  };
  const Status grown = [&]() -> Status {
    if (!volume.grows_from.has_value()) {
      ASSIGN_OR_RETURN(volume.grows_from, read_total());
      RETURN_IF_ERROR(table_->StoreVolume(volume));
    }
    RETURN_IF_ERROR(AskToGrow(shim, id, bytes, options_.growth_time));
    ASSIGN_OR_RETURN(const int64_t total, read_total());
    if (total > *volume.grows_from) return OkStatus();
    return Error(StatusCode::kFailedPrecondition,
                 "Kata's shim says that the file system has grown, but it has {} bytes as before",
                 total);
  }();
  if (grown.code() == StatusCode::kUnimplemented) {
    return Error(StatusCode::kFailedPrecondition, "{}: it grows when it is staged next",
                 base::Message(grown));
  }
  // To the caller NOT_FOUND would mean that the volume is not published.
  if (grown.code() == StatusCode::kNotFound) {
    return Error(StatusCode::kUnavailable, "{}", base::Message(grown));
  }
  RETURN_IF_ERROR(grown);
  volume.grows_from.reset();
  volume.device_bytes = bytes;
  LOG_INFO("the volume at {} of pod {} has grown to {} bytes", volume.volume.target, volume.pod,
           bytes);
  return table_->StoreVolume(volume);
}

bool KataCalls::IsPodGone(const api::PodUid& pod) const {
  // A folder that is missing together with the one around it proves nothing, because the kubelet's
  // disk may not be mounted yet.
  const std::string pods = options_.kubelet_folder + "/pods";
  if (access(pods.c_str(), F_OK) != 0) return false;
  return access(fmt::format("{}/{}", pods, pod.text()).c_str(), F_OK) != 0 && errno == ENOENT;
}

std::set<rpc::SandboxId> KataCalls::FindEnded(const std::vector<KataVolume>& volumes) {
  std::set<rpc::SandboxId> ended;
  std::set<rpc::SandboxId> missed;
  base::MutexLock lock(mutex_);
  for (const KataVolume& volume : volumes) {
    const rpc::SandboxId& id = volume.sandbox;
    if (id.empty() || !sandboxes_.IsGone(id)) continue;
    // A sandbox has ended if two checks do not find it.
    (missed_.contains(id) ? ended : missed).insert(id);
  }
  for (const KataVolume& volume : volumes) missed_.erase(volume.sandbox);
  missed_.insert(missed.begin(), missed.end());
  return ended;
}

base::KeyedWorkers::Outcome KataCalls::ClearPod(const std::string& uid) {
  using Outcome = base::KeyedWorkers::Outcome;
  const api::PodUid pod(uid);
  const auto lock = table_->LockPod(pod, options_.patience);
  if (!lock.ok()) return Outcome::After(options_.check_interval);
  const std::vector<KataVolume> volumes = table_->ListVolumes(pod);
  const std::set<rpc::SandboxId> ended = FindEnded(volumes);
  const bool pod_gone = IsPodGone(pod);
  Status first = OkStatus();
  for (const KataVolume& volume : volumes) {
    const bool left = volume.volume.state == VolumeState::kUnpublishing ||
                      (volume.sandbox.empty() ? pod_gone : ended.contains(volume.sandbox));
    if (!left) continue;
    // A volume that cannot be unpublished does not block the others.
    const Status cleared = UnpublishVolume(volume);
    if (first.ok()) first = cleared;
  }
  if (!first.ok()) return Outcome::Retry(first);
  if (table_->ListVolumes(pod).empty()) return Outcome::Done();
  return Outcome::After(options_.check_interval);
}

}  // namespace berth::crust::kata
