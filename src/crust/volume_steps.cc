#include "crust/volume_steps.h"

#include <utility>
#include <vector>

#include "base/log.h"
#include "crust/device.h"
#include "crust/leftovers.h"

namespace berth::crust {
namespace {

using base::OkStatus;
using base::Quote;
using base::Status;
using base::StatusCode;

// Whether a publish that failed with this status certainly mounted nothing. That is not certain
// after a time-out, or if the child process died.
bool IsCertainlyNotMounted(const Status& failure) {
  return failure.code() != StatusCode::kDeadlineExceeded && failure.code() != StatusCode::kInternal;
}

}  // namespace

Status VolumeSteps::ChangeRecord(SandboxRecord& record, const std::function<void()>& change) {
  const std::vector<VolumeRecord> before = record.volumes;
  change();
  const Status written = records_.WriteRecord(record);
  if (!written.ok()) record.volumes = before;
  return written;
}

Status VolumeSteps::SetState(Entry& entry, VolumeRecord& volume, VolumeState state) {
  return ChangeRecord(entry.record, [&] { volume.state = state; });
}

Status VolumeSteps::RecordOtherPath(Entry& entry, VolumeRecord& volume,
                                    const std::string& host_volume_id, MountPlan plan) {
  if (volume.host_volume_id == host_volume_id) return OkStatus();
  return ChangeRecord(entry.record, [&] {
    volume.host_volume_id = host_volume_id;
    volume.plan = std::move(plan);
  });
}

Status VolumeSteps::PublishNew(Entry& entry, VolumeRecord volume) {
  std::vector<VolumeRecord>& volumes = entry.record.volumes;
  RETURN_IF_ERROR(ChangeRecord(entry.record, [&] { volumes.push_back(std::move(volume)); }));
  sandboxes_.RecordUse(entry.record.sandbox_id, volumes.back());
  return PublishVolume(entry, volumes.back(), /*absent=*/true);
}

Status VolumeSteps::PublishAgain(Entry& entry, VolumeRecord& volume) {
  return PublishVolume(entry, volume, /*absent=*/false);
}

// `absent`: the volume certainly is not mounted yet.
Status VolumeSteps::PublishVolume(Entry& entry, VolumeRecord& volume, bool absent) {
  const std::string& sandbox_id = entry.record.sandbox_id;
  if (volume.state == VolumeState::kFailed) {
    absent = true;
    RETURN_IF_ERROR(SetState(entry, volume, VolumeState::kPublishing));
    sandboxes_.RecordUse(sandbox_id, volume);
  }
  const PublishContext context{
      .shared = sandboxes_.IsWrittenElsewhere(sandbox_id, volume),
      .absent = absent,
      .alone = [&] { return !sandboxes_.IsUsedElsewhere(sandbox_id, volume); },
      .cancelled = [&] { return stopping_ || entry.unwanted; },
      .progress =
          [&](uint64_t done) {
            std::string text = fmt::format("fsGroup of {}: {} files and folders so far",
                                           Quote(volume.host_volume_id), done);
            LOG_INFO("{}", text);
            sandboxes_.SetProgress(entry, std::move(text));
          }};
  const Status published = entry.sandbox->PublishVolume(volume.plan, context);
  if (volume.state == VolumeState::kPublished) return published;
  if (published.ok()) {
    RETURN_IF_ERROR(SetState(entry, volume, VolumeState::kPublished));
    sandboxes_.RecordUse(sandbox_id, volume);
    LOG_INFO("volume {} is published in sandbox {}", Quote(volume.host_volume_id),
             Quote(sandbox_id));
    return OkStatus();
  }
  // If the outcome of this try or an earlier one is unknown, the volume stays "publishing", because
  // the kernel may still mount it.
  if (absent && IsCertainlyNotMounted(published)) {
    if (const Status noted = SetState(entry, volume, VolumeState::kFailed); noted.ok()) {
      sandboxes_.RemoveUse(rpc::SandboxId(sandbox_id), volume.target);
    } else {
      LOG_WARNING("sandbox {}: {}", Quote(sandbox_id), base::ToString(noted));
    }
  }
  return published;
}

Status VolumeSteps::UnpublishVolume(Entry& entry, const platform::TargetPath& target) {
  SandboxRecord& record = entry.record;
  VolumeRecord* volume = record.FindTarget(target);
  if (volume == nullptr) return OkStatus();
  if (volume->state == VolumeState::kPublished) {
    RETURN_IF_ERROR(SetState(entry, *volume, VolumeState::kUnpublishing));
  }
  RETURN_IF_ERROR(entry.sandbox->UnpublishVolume(volume->plan));
  // The use is removed before the check whether another sandbox uses the device. So the last of two
  // unpublishes at the same time waits until the device is free.
  sandboxes_.RemoveUse(rpc::SandboxId(record.sandbox_id), target);
  const Status forgotten = ForgetVolume(entry, *volume);
  if (forgotten.ok()) return OkStatus();
  const VolumeRecord* left = record.FindTarget(target);
  if (left->state != VolumeState::kFailed) sandboxes_.RecordUse(record.sandbox_id, *left);
  return forgotten;
}

Status VolumeSteps::ForgetVolume(Entry& entry, VolumeRecord& volume) {
  SandboxRecord& record = entry.record;
  // A failed volume is not mounted, so a user of its device has nothing to do with it.
  if (volume.state != VolumeState::kFailed) RETURN_IF_ERROR(WaitUntilFree(record, volume));
  RETURN_IF_ERROR(RemoveEmptyFolders(volume.target.text()));
  const std::string host_volume_id = volume.host_volume_id;
  RETURN_IF_ERROR(ChangeRecord(record, [&] {
    std::erase_if(record.volumes, [&](const VolumeRecord& each) { return &each == &volume; });
  }));
  LOG_INFO("volume {} is unpublished in sandbox {}", Quote(host_volume_id),
           Quote(record.sandbox_id));
  return OkStatus();
}

Status VolumeSteps::WaitUntilFree(const SandboxRecord& record, const VolumeRecord& volume) {
  if (!volume.plan.device.block || sandboxes_.IsUsedElsewhere(record.sandbox_id, volume)) {
    return OkStatus();
  }
  return WaitUntilDeviceIsFree(volume.plan.device, free_within_);
}

}  // namespace berth::crust
