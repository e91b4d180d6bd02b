// Reports to pods about their volumes (volume_units.h): the reasons why they wait, and events.
#include <algorithm>

#include "node/volumes/host_mount_pod.h"
#include "node/volumes/volume_units.h"

namespace berth::node {
namespace {

using base::MutexLock;
using base::Status;
using std::chrono::steady_clock;

// The same event about the same volume of a pod is not sent again before this time has passed.
constexpr auto kSameEventAfter = std::chrono::minutes(2);

}  // namespace

void VolumeUnits::SetReason(const Job& job, std::string reason) {
  bool changed = false;
  std::string uid;
  UpdateUse(job, [&](Unit&, Use& use) {
    changed = use.reason != reason;
    use.reason = std::move(reason);
    if (use.attempt == Attempt::kBegun) use.attempt = Attempt::kNone;
    uid = use.pod_uid;
  });
  if (changed) deps_.owner.NotifyPod(uid);
}

void VolumeUnits::SetBegun(const Job& job) {
  bool changed = false;
  UpdateUse(job, [&](Unit&, Use& use) {
    // The reason of a failed attempt stays until an attempt succeeds.
    if (use.attempt != Attempt::kNone) return;
    use.attempt = Attempt::kBegun;
    changed = true;
    use.reason.clear();
  });
  if (changed) deps_.owner.NotifyPod(job.pod->uid());
}

void VolumeUnits::WarnPod(const Job& job, std::string_view event, std::string_view message) {
  bool send = false;
  UpdateUse(job, [&](Unit&, Use& use) {
    const auto now = steady_clock::now();
    send = use.last_event != message || now - use.last_event_at > kSameEventAfter;
    if (!send) return;
    use.last_event = std::string(message);
    use.last_event_at = now;
  });
  if (!send) return;
  base::ObjectReference target;
  if (job.pod != nullptr) {
    target = EventTarget(*job.pod);
  } else if (job.stored.has_value()) {
    target = {.api_version = "v1",
              .kind = "Pod",
              .ns = job.stored->pod_ns,
              .name = job.stored->pod_name,
              .uid = job.stored->record.pod_uid};
  }
  deps_.events.Record(target, base::EventType::kWarning, event, message);
}

Status VolumeUnits::ReportFailure(const Job& job, std::string_view what, const Status& why) {
  const Status status = base::Annotate(why, what);
  const std::string reason = base::ToString(status);
  WarnPod(job, job.volume.spec.block() ? "FailedMapVolume" : "FailedMount",
          fmt::format("volume '{}': {}", job.volume.spec.name, reason));
  UpdateUse(job, [](Unit&, Use& use) { use.attempt = Attempt::kFailed; });
  SetReason(job, reason);
  return status;
}

void VolumeUnits::HandleLostMounts(const platform::LostFuse& lost, const std::string& why) {
  const std::set<std::string> points(lost.mount_points.begin(), lost.mount_points.end());
  // A lost mount over the volume's own mount belongs to another program.
  const auto is_lost = [&](const std::string& path, const std::optional<MountIdentity>& mount) {
    return points.contains(path) &&
           (!mount.has_value() ||
            platform::ToFuseConnection(mount->major, mount->minor) == lost.connection);
  };
  const auto has_lost = [&is_lost](const Use& use) {
    return use.stored.has_value() && use.stored->published.has_value() &&
           is_lost(use.stored->published->path, use.stored->mount);
  };
  std::vector<std::string> keys;
  {
    MutexLock lock(mutex_);
    for (const auto& [key, unit] : units_) {
      const bool device =
          unit->device.has_value() && unit->plugin != nullptr &&
          is_lost(unit->plugin->DevicePath(unit->device->record), unit->device->mount);
      if (device || std::any_of(unit->uses.begin(), unit->uses.end(),
                                [&](const auto& entry) { return has_lost(entry.second); })) {
        keys.push_back(key);
      }
    }
  }
  for (const std::string& key : keys) {
    for (const Job& job : FindJobs(key, [&has_lost](const Unit&, const Use& use) {
           return !use.state.IsReleased() && has_lost(use);
         })) {
      const StoredPodVolume& stored = *job.stored;
      WarnPod(job, "VolumeMountLost",
              fmt::format(
                  "volume '{}': {}; reads and writes on it fail until {}; pods that ask "
                  "for the volume on this node from now on get a new mount",
                  stored.names.empty() ? stored.record.folder_name : stored.names.front(), why,
                  IsHostMountPod(stored.record.pod_uid) ? "it is unmounted and mounted again"
                                                        : "the pod is deleted and created again"));
    }
    workers_.AddNow(key);
  }
}

}  // namespace berth::node
