#include "crust/pods/pod_volumes.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/log.h"
#include "crust/pods/placeholder.h"
#include "crust/pods/plan_file.h"
#include "crust/requests.h"

namespace berth::crust {
namespace {

using base::Error;
using base::OkStatus;
using base::Quote;
using base::Status;
using base::StatusCode;
using base::StatusOr;

constexpr size_t kMaxPods = 8192;
constexpr size_t kMaxPodVolumes = 256;

}  // namespace

StatusOr<std::unique_ptr<PodVolumes>> PodVolumes::Open(const Paths& paths,
                                                       platform::Mounter& mounter,
                                                       std::chrono::milliseconds patience) {
  ASSIGN_OR_RETURN(PodRecords records,
                   PodRecords::Open(paths.PodFolder(), paths.FormerPodFolder()));
  ASSIGN_OR_RETURN(PodRecords::Loaded loaded, records.LoadRecords());
  std::unique_ptr<PodVolumes> pods(new PodVolumes(paths, mounter, patience, std::move(records)));
  // A record of an earlier boot says nothing about this one, but which boot it was of is not known.
  // The plan shows it, because the run folder is empty after a boot.
  for (const std::string& id : loaded.unreadable) {
    const api::PodUid pod(id);
    if (ReadPlan(paths.run(), pod).status().code() != StatusCode::kNotFound) {
      pods->unreadable_.insert(pod);
    }
  }
  base::MutexLock lock(pods->mutex_);
  for (PodRecord& record : loaded.records) {
    const api::PodUid pod = record.pod_uid;
    LOG_INFO("pod {} has {} volumes", pod, record.volumes.size());
    // Without the plan, berth-oci would start containers that have the placeholders as volumes.
    RETURN_IF_ERROR(WritePlan(paths.run(), pod, record.targets()));
    pods->pods_.emplace(pod, std::move(record));
  }
  return pods;
}

StatusOr<bool> PodVolumes::IsGone(const PodRecord& record, const std::string& kubelet_folder) {
  // A folder that is missing together with the one around it proves nothing, because the kubelet's
  // disk may not be mounted yet.
  const std::string pods = kubelet_folder + "/pods";
  if (access(pods.c_str(), F_OK) != 0) return false;
  if (access(fmt::format("{}/{}", pods, record.pod_uid.text()).c_str(), F_OK) == 0 ||
      errno != ENOENT) {
    return false;
  }
  ASSIGN_OR_RETURN(const auto table, mounter_.List());
  return std::ranges::none_of(table, [&](const platform::MountEntry& mount) {
    return platform::IsPlaceholder(mount) &&
           mount.mount_point.find("/" + record.pod_uid.text() + "/volumes/") != std::string::npos;
  });
}

void PodVolumes::ForgetGonePods(const std::string& kubelet_folder,
                                const std::function<bool(const api::PodUid& pod)>& has_sandbox) {
  std::vector<PodRecord> records;
  {
    base::MutexLock lock(mutex_);
    for (const auto& [pod, record] : pods_) records.push_back(record);
  }
  for (PodRecord& record : records) {
    const api::PodUid pod = record.pod_uid;
    const Status forgotten = [&]() -> Status {
      ASSIGN_OR_RETURN(const bool gone, IsGone(record, kubelet_folder));
      if (!gone) return OkStatus();
      if (has_sandbox(pod)) {
        return Error(StatusCode::kFailedPrecondition,
                     "the pod has left the node, but it still has a sandbox");
      }
      RETURN_IF_ERROR(WritePlan(run_folder_, pod, {}));
      record.volumes.clear();
      RETURN_IF_ERROR(StoreRecord(std::move(record)));
      LOG_INFO("pod {} has left the node, so its volumes are forgotten", pod);
      return OkStatus();
    }();
    if (!forgotten.ok()) {
      LOG_WARNING("forget the volumes of pod {}: {}", pod, base::ToString(forgotten));
    }
  }
}

StatusOr<base::KeyLocks::Hold> PodVolumes::LockPod(const api::PodUid& pod) {
  auto hold = calls_.WaitExclusive(pod.text(), std::chrono::steady_clock::now() + patience_);
  if (hold.ok()) return hold;
  return Error(StatusCode::kAborted, "another call for pod {} is under way", pod);
}

Status PodVolumes::CheckReadable(const api::PodUid& pod) const {
  if (!unreadable_.contains(pod)) return OkStatus();
  return Error(StatusCode::kInternal,
               "the record of the volumes of pod {} cannot be read: the pod gets no sandbox until "
               "this machine is rebooted",
               pod);
}

PodRecord PodVolumes::CopyRecord(const api::PodUid& pod) {
  base::MutexLock lock(mutex_);
  const auto found = pods_.find(pod);
  return found == pods_.end() ? PodRecord{.pod_uid = pod} : found->second;
}

Status PodVolumes::StoreRecord(PodRecord record) {
  const api::PodUid pod = record.pod_uid;
  if (record.volumes.empty()) {
    RETURN_IF_ERROR(records_.RemoveRecord(pod.text()));
    base::MutexLock lock(mutex_);
    pods_.erase(pod);
    return OkStatus();
  }
  RETURN_IF_ERROR(records_.WriteRecord(record));
  base::MutexLock lock(mutex_);
  pods_.insert_or_assign(pod, std::move(record));
  return OkStatus();
}

void PodVolumes::SetStateNow(const api::PodUid& pod, const platform::TargetPath& target,
                             VolumeState state) {
  base::MutexLock lock(mutex_);
  const auto found = pods_.find(pod);
  if (found == pods_.end()) return;
  if (VolumeRecord* volume = found->second.FindTarget(target)) volume->state = state;
}

Status PodVolumes::CheckReplacement(const api::PodUid& pod, const VolumeRecord& known,
                                    const VolumeRecord& volume,
                                    const std::function<StatusOr<bool>()>& is_used) {
  if (known.state == VolumeState::kUnpublishing) {
    return Error(StatusCode::kFailedPrecondition, "the volume at {} is being unpublished",
                 known.target);
  }
  if (IsSame(known.plan, volume.plan)) return OkStatus();
  // A sandbox that begins during the check does not get the volume.
  SetStateNow(pod, known.target, VolumeState::kUnpublishing);
  const StatusOr<bool> used = is_used();
  if (used.ok() && !*used) return OkStatus();
  SetStateNow(pod, known.target, VolumeState::kPublished);
  RETURN_IF_ERROR(used);
  return Error(StatusCode::kFailedPrecondition,
               "a sandbox of the pod has another volume at {}, or the same one in another way",
               known.target);
}

Status PodVolumes::PublishVolume(const api::PodUid& pod, VolumeRecord volume,
                                 const std::function<StatusOr<bool>()>& is_used) {
  ASSIGN_OR_RETURN(const auto lock, LockPod(pod));
  RETURN_IF_ERROR(CheckReadable(pod));
  PodRecord record = CopyRecord(pod);
  volume.state = VolumeState::kPublished;
  const platform::TargetPath target = volume.target;
  VolumeRecord* known = record.FindTarget(target);
  const bool is_new = known == nullptr;
  bool changed = true;
  if (is_new) {
    base::MutexLock pods_lock(mutex_);
    if (record.volumes.size() >= kMaxPodVolumes ||
        (record.volumes.empty() && pods_.size() >= kMaxPods)) {
      return Error(StatusCode::kResourceExhausted,
                   "the pod has {} volumes already, and {} pods have volumes",
                   record.volumes.size(), pods_.size());
    }
    record.volumes.push_back(std::move(volume));
  } else {
    RETURN_IF_ERROR(CheckReplacement(pod, *known, volume, is_used));
    changed = known->host_volume_id != volume.host_volume_id || known->plan != volume.plan;
    volume.grow = known->grow;
    *known = std::move(volume);
  }
  const Status made = [&]() -> Status {
    if (changed) RETURN_IF_ERROR(StoreRecord(record));
    RETURN_IF_ERROR(MakePlaceholder(mounter_, target));
    return WritePlan(run_folder_, pod, record.targets());
  }();
  if (made.ok()) {
    if (is_new) LOG_INFO("the volume at {} is published for the sandboxes of pod {}", target, pod);
    return OkStatus();
  }
  if (!is_new) SetStateNow(pod, target, VolumeState::kPublished);
  // The caller may never unpublish a volume whose publish failed for good. After a time-out it
  // does, because the placeholder may still be mounted.
  if (is_new && made.code() != StatusCode::kDeadlineExceeded) {
    if (const Status undone = ForgetVolume(std::move(record), target); !undone.ok()) {
      LOG_WARNING("pod {}: {}", pod, base::ToString(undone));
    }
  }
  return made;
}

Status PodVolumes::UnpublishVolume(const api::PodUid& pod, const platform::TargetPath& target,
                                   std::string_view host_volume_id,
                                   const std::function<Status()>& take_out) {
  ASSIGN_OR_RETURN(const auto lock, LockPod(pod));
  PodRecord record = CopyRecord(pod);
  VolumeRecord* known = record.FindTarget(target);
  if (known != nullptr) {
    if (!host_volume_id.empty() && known->host_volume_id != host_volume_id) {
      return Error(StatusCode::kFailedPrecondition, "the volume at {} is {}, not {}", target,
                   Quote(known->host_volume_id), Quote(host_volume_id.substr(0, 512)));
    }
    if (known->state != VolumeState::kUnpublishing) {
      known->state = VolumeState::kUnpublishing;
      RETURN_IF_ERROR(StoreRecord(record));
    }
  }
  RETURN_IF_ERROR(take_out());
  // The plan and a record that cannot be read stay, because they may name other volumes.
  if (known == nullptr) return RemovePlaceholder(mounter_, target);
  RETURN_IF_ERROR(ForgetVolume(std::move(record), target));
  LOG_INFO("the volume at {} is unpublished for the sandboxes of pod {}", target, pod);
  return OkStatus();
}

Status PodVolumes::NoteGrowth(const api::PodUid& pod, const platform::TargetPath& target) {
  ASSIGN_OR_RETURN(const auto lock, LockPod(pod));
  PodRecord record = CopyRecord(pod);
  VolumeRecord* known = record.FindTarget(target);
  if (known == nullptr) {
    return Error(StatusCode::kNotFound, "pod {} has no volume at {} any more", pod, target);
  }
  if (known->grow) return OkStatus();
  known->grow = true;
  return StoreRecord(std::move(record));
}

Status PodVolumes::ForgetVolume(PodRecord record, const platform::TargetPath& target) {
  RETURN_IF_ERROR(RemovePlaceholder(mounter_, target));
  std::erase_if(record.volumes,
                [&](const VolumeRecord& volume) { return volume.target == target; });
  RETURN_IF_ERROR(WritePlan(run_folder_, record.pod_uid, record.targets()));
  return StoreRecord(std::move(record));
}

StatusOr<std::vector<VolumeRecord>> PodVolumes::ListVolumes(const api::PodUid& pod) {
  RETURN_IF_ERROR(CheckReadable(pod));
  std::vector<VolumeRecord> volumes = CopyRecord(pod).volumes;
  std::erase_if(volumes,
                [](const VolumeRecord& volume) { return volume.state != VolumeState::kPublished; });
  return volumes;
}

StatusOr<std::vector<platform::TargetPath>> PodVolumes::ListTargets(const api::PodUid& pod) {
  RETURN_IF_ERROR(CheckReadable(pod));
  return CopyRecord(pod).targets();
}

StatusOr<VolumeRecord> PodVolumes::FindVolume(const api::PodUid& pod,
                                              std::string_view host_volume_id) {
  ASSIGN_OR_RETURN(const std::vector<VolumeRecord> volumes, ListVolumes(pod));
  const auto found = std::ranges::find(volumes, host_volume_id, &VolumeRecord::host_volume_id);
  if (found != volumes.end()) return *found;
  return Error(StatusCode::kNotFound, "pod {} has no volume {}", pod,
               Quote(host_volume_id.substr(0, 512)));
}

}  // namespace berth::crust
