// The part of Attachments that grows volumes with their images.

#include <algorithm>

#include "api/quantity.h"
#include "base/log.h"
#include "base/pause.h"
#include "blockagent/attachments.h"
#include "blockagent/device_content.h"

namespace berth::blockagent {

using base::Error;
using base::Quote;
using base::Status;
using base::StatusCode;
using base::StatusOr;

namespace {

// The pauses between two looks at the size of an image, which no back end announces.
constexpr std::chrono::milliseconds kFirstPause{100};
constexpr std::chrono::milliseconds kLongestPause{1000};

// The mapping with the size that its image has now. A back end that cannot tell gives the size at
// the time of mapping, which is that of an image that grew before.
StatusOr<block::Mapping> RefreshMapping(block::Backend& backend, const block::Mapping& mapping) {
  StatusOr<block::Mapping> now = backend.Refresh(mapping);
  if (now.status().code() == StatusCode::kUnimplemented) return mapping;
  return now;
}

}  // namespace

Status Attachments::GrowVolume(Record& record, block::Backend& backend) {
  if (record.mapping->read_only) return base::OkStatus();
  ASSIGN_OR_RETURN(block::Mapping now, RefreshMapping(backend, *record.mapping));
  if (now.size_bytes != record.mapping->size_bytes) {
    record.mapping = now;
    RETURN_IF_ERROR(records_->Put(record));
  }
  const auto mounted = std::ranges::find(record.uses, State::kMounted, &Use::state);
  if (mounted == record.uses.end()) return base::OkStatus();
  return GrowContent(
      parts_.exec,
      {.device = now.device,
       .device_bytes = now.size_bytes,
       .mount_point = record.shared_mount.empty() ? mounted->entry.mount_dir : record.shared_mount},
      record.fs_type);
}

StatusOr<int64_t> Attachments::GrowRecorded(const api::VolumeName& volume,
                                            const std::string& mount_dir, Deadline deadline) {
  ASSIGN_OR_RETURN(const auto hold, locks_.WaitExclusive(volume.text(), deadline));
  std::optional<Record> record = records_->Get(volume.text());
  const auto is_mounted_there = [&](const Use& use) {
    return use.state == State::kMounted && use.entry.mount_dir == mount_dir;
  };
  if (!record.has_value() || !record->mapping.has_value() ||
      std::ranges::none_of(record->uses, is_mounted_there)) {
    return Error(StatusCode::kFailedPrecondition, "volume {} is not mounted at {}", volume,
                 Quote(mount_dir));
  }
  ASSIGN_OR_RETURN(const BackendPtr backend, OpenBackend(record->backend));
  RETURN_IF_ERROR(backend->Check(*record->mapping));
  if (record->mapping->read_only) {
    // Only a writer can grow the file system, and the mount for the next one does.
    ASSIGN_OR_RETURN(const block::Mapping now, RefreshMapping(*backend, *record->mapping));
    return static_cast<int64_t>(now.size_bytes);
  }
  RETURN_IF_ERROR(GrowVolume(*record, *backend));
  return static_cast<int64_t>(record->mapping->size_bytes);
}

Status Attachments::Expand(const std::string& mount_dir, int64_t bytes, Deadline deadline) {
  const auto folder = ParseVolumeFolder(mount_dir);
  if (!folder.has_value()) {
    return Error(StatusCode::kInvalidArgument, "{} is not the folder of a volume",
                 Quote(mount_dir));
  }
  const Deadline end =
      std::min(deadline, std::chrono::steady_clock::now() + options_.image_patience);
  std::chrono::milliseconds pause = kFirstPause;
  while (true) {
    // The volume is not locked during the pauses, so that it can be unmounted meanwhile.
    ASSIGN_OR_RETURN(const int64_t size,
                     GrowRecorded(api::VolumeName(folder->volume), mount_dir, deadline));
    if (size >= bytes) {
      LOG_INFO("volume {} at {} has {}", Quote(folder->volume), Quote(mount_dir),
               api::FormatBytes(size));
      return base::OkStatus();
    }
    if (std::chrono::steady_clock::now() + pause > end) {
      return Error(
          StatusCode::kUnavailable,
          "the image of volume {} still has {}, and {} is wanted: the block operator grows "
          "it, and an event VolumeResizeFailed of the claim says why it cannot",
          Quote(folder->volume), api::FormatBytes(size), api::FormatBytes(bytes));
    }
    if (!base::SleepFor(stopping_.get_token(), pause)) {
      return Error(StatusCode::kUnavailable, "the block agent is being stopped");
    }
    pause = std::min(pause * 2, kLongestPause);
  }
}

}  // namespace berth::blockagent
