#include "crust/volume_steps.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/ipc/crust_call.h"
#include "base/log.h"
#include "crust/containers/bundle_config.h"
#include "crust/device.h"
#include "crust/leftovers.h"
#include "crust/requests.h"
#include "platform/files/durable_file.h"

namespace berth::crust {
namespace {

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

// If the plan relabels files with a label that the request did not name, the files get the label
// that the container runtime chose for the sandbox, and that it gives the files of its containers.
// If it chose none, its containers run without SELinux, and nothing is relabelled.
Status FillLabel(const SandboxRecord& record, MountPlan& plan) {
  const auto is_open = [](const Step& step) {
    const auto* relabel = std::get_if<RelabelFiles>(&step);
    return relabel != nullptr && relabel->label.empty();
  };
  const auto step = std::ranges::find_if(plan.steps, is_open);
  if (step == plan.steps.end()) return OkStatus();
  const std::string path = record.bundle + "/config.json";
  StatusOr<std::string> text = platform::ReadFile(path, base::ipc::crust::kLargestConfig);
  RETURN_IF_ERROR_WITH(text, "find the SELinux label of the sandbox");
  ASSIGN_OR_RETURN(const base::Json config, ReadConfig(*text));
  std::string label = base::json::String(config, {"linux", "mountLabel"});
  if (label.empty()) {
    plan.steps.erase(step);
  } else {
    *step = RelabelFiles{std::move(label)};
  }
  return OkStatus();
}

// What the walks over the volume's files set.
std::string_view DescribeWalks(const MountPlan& plan) {
  if (plan.Find<RelabelFiles>() == nullptr) return "fsGroup";
  return plan.Find<ApplyGroup>() == nullptr ? "SELinux label" : "fsGroup and SELinux label";
}

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

Status VolumeSteps::RecordOtherPath(Entry& entry, VolumeRecord& volume, VolumeRecord other) {
  if (volume.host_volume_id == other.host_volume_id) return OkStatus();
  return ChangeRecord(entry.record, [&] {
    volume.host_volume_id = std::move(other.host_volume_id);
    volume.plan = std::move(other.plan);
  });
}

Status VolumeSteps::PublishVolume(Entry& entry, VolumeRecord volume) {
  SandboxRecord& record = entry.record;
  RETURN_IF_ERROR(FillLabel(record, volume.plan));
  VolumeRecord* known = record.FindTarget(volume.target);
  volume.plan.SetName(known != nullptr ? std::string(known->plan.name()) : FindFreeName(record));
  volume.state = VolumeState::kPublishing;
  if (known != nullptr) {
    if (known->state == VolumeState::kUnpublishing) {
      return Error(StatusCode::kFailedPrecondition, "the volume at {} is being unpublished",
                   volume.target);
    }
    if (IsSame(known->plan, volume.plan)) {
      RETURN_IF_ERROR(RecordOtherPath(entry, *known, std::move(volume)));
      return PublishAgain(entry, *known);
    }
    if (known->state == VolumeState::kPublished) {
      return Error(StatusCode::kFailedPrecondition,
                   "another volume is published at {}, or the same one in another way",
                   volume.target);
    }
    // An earlier publish failed and this one has other arguments. The earlier one may have mounted
    // the volume, so it is unpublished first.
    RETURN_IF_ERROR(UnpublishVolume(entry, volume.target));
  }
  if (record.volumes.size() >= kMaxVolumes) {
    return Error(StatusCode::kResourceExhausted, "the sandbox has {} volumes already",
                 record.volumes.size());
  }
  RETURN_IF_ERROR(ChangeRecord(record, [&] { record.volumes.push_back(std::move(volume)); }));
  sandboxes_.RecordUse(record.sandbox_id, record.volumes.back());
  return MountVolume(entry, record.volumes.back(), /*absent=*/true);
}

Status VolumeSteps::PublishAgain(Entry& entry, VolumeRecord& volume) {
  return MountVolume(entry, volume, /*absent=*/false);
}

// `absent`: the volume certainly is not mounted yet.
Status VolumeSteps::MountVolume(Entry& entry, VolumeRecord& volume, bool absent) {
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
            std::string text =
                fmt::format("{} of {}: {} files and folders so far", DescribeWalks(volume.plan),
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

Status VolumeSteps::UnpublishVolume(Entry& entry, const platform::TargetPath& target,
                                    std::optional<std::chrono::milliseconds> free_within) {
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
  const Status forgotten = ForgetVolume(entry, *volume, free_within.value_or(free_within_));
  if (forgotten.ok()) return OkStatus();
  const VolumeRecord* left = record.FindTarget(target);
  if (left->state != VolumeState::kFailed) sandboxes_.RecordUse(record.sandbox_id, *left);
  return forgotten;
}

Status VolumeSteps::ForgetVolume(Entry& entry, VolumeRecord& volume,
                                 std::chrono::milliseconds free_within) {
  SandboxRecord& record = entry.record;
  // A failed volume is not mounted, so a user of its device has nothing to do with it.
  if (volume.state != VolumeState::kFailed) {
    RETURN_IF_ERROR(WaitUntilFree(record, volume, free_within));
  }
  RETURN_IF_ERROR(RemoveEmptyFolders(volume.target.text()));
  const std::string host_volume_id = volume.host_volume_id;
  RETURN_IF_ERROR(ChangeRecord(record, [&] {
    std::erase_if(record.volumes, [&](const VolumeRecord& each) { return &each == &volume; });
  }));
  LOG_INFO("volume {} is unpublished in sandbox {}", Quote(host_volume_id),
           Quote(record.sandbox_id));
  return OkStatus();
}

Status VolumeSteps::WaitUntilFree(const SandboxRecord& record, const VolumeRecord& volume,
                                  std::chrono::milliseconds free_within) {
  if (!volume.plan.device.block || sandboxes_.IsUsedElsewhere(record.sandbox_id, volume)) {
    return OkStatus();
  }
  return WaitUntilDeviceIsFree(volume.plan.device, free_within);
}

}  // namespace berth::crust
