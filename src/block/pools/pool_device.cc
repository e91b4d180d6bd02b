// The part of Pool that makes volumes loop devices, and grows volumes.
#include <fcntl.h>

#include <algorithm>
#include <utility>

#include "base/fault.h"
#include "base/log.h"
#include "base/text.h"
#include "block/device.h"
#include "block/pools/pool.h"

namespace berth::block {

using base::Error;
using base::StatusCode;
using platform::LoopDevice;

namespace {

// Each try that fails reads the mount tables of the whole machine to say who holds the device, so
// that the pauses grow.
constexpr std::chrono::milliseconds kFirstDetachPause{10};
constexpr std::chrono::milliseconds kLongestDetachPause{160};

}  // namespace

base::StatusOr<std::optional<LoopDevice>> Pool::FindDevice(const std::string& volume_id) const {
  platform::FileIdentity image;
  {
    base::MutexLock lock(mutex_);
    const auto it = shelf(Kind::kVolume).records.find(volume_id);
    if (it == shelf(Kind::kVolume).records.end()) return std::optional<LoopDevice>();
    image = {.dev = place_.device, .ino = it->second.image.inode};
  }
  if (image.ino == 0) return std::optional<LoopDevice>();  // its image was never finished
  ASSIGN_OR_RETURN(
      const std::vector<LoopDevice> loops,
      platform::FindLoops(image, base::FileNameOf(paths_.Image(Kind::kVolume, volume_id))));
  if (loops.size() > 1) {
    return Error(StatusCode::kFailedPrecondition,
                 "volume {} is attached twice, as {} and {}: detach the one that is not in use",
                 base::Quote(volume_id), loops[0].path, loops[1].path);
  }
  if (loops.empty()) return std::optional<LoopDevice>();
  return std::optional<LoopDevice>(loops[0]);
}

base::StatusOr<LoopDevice> Pool::Map(const std::string& volume_id) {
  ASSIGN_OR_RETURN(Record record, Get(Kind::kVolume, volume_id));
  RETURN_IF_ERROR(CheckImage(record));
  ASSIGN_OR_RETURN(std::optional<LoopDevice> device, FindDevice(volume_id));
  if (!device.has_value()) {
    ASSIGN_OR_RETURN(device, platform::AttachLoop(paths_.Image(Kind::kVolume, volume_id),
                                                  {.block_size = record.sector_size}));
  }
  // Another file may have got the image's path since the check.
  if (device->backing.ino != record.image.inode || device->backing.dev != place_.device) {
    RETURN_IF_ERROR(platform::DetachLoop(*device));
    return Error(StatusCode::kDataLoss, "{} shows another file than the image of volume {}",
                 device->path, base::Quote(volume_id));
  }
  if (device->size != static_cast<uint64_t>(record.size_bytes)) {
    ASSIGN_OR_RETURN(device->size, platform::RefreshLoopSize(*device));
  }
  if (record.sector_size == 0) {
    record.sector_size = device->block_size;
    RETURN_IF_ERROR(UpdateRecord(record));
  }
  return *std::move(device);
}

base::Status Pool::Unmap(const std::string& volume_id, std::chrono::milliseconds patience) {
  ASSIGN_OR_RETURN(const std::optional<LoopDevice> device, FindDevice(volume_id));
  if (!device.has_value()) return base::OkStatus();
  const auto deadline = std::chrono::steady_clock::now() + patience;
  auto pause = kFirstDetachPause;
  base::Status detached = platform::DetachLoop(*device);
  while (detached.code() == StatusCode::kFailedPrecondition &&
         std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, kLongestDetachPause);
    detached = platform::DetachLoop(*device);
  }
  return base::Annotate(detached, fmt::format("detach volume {}", base::Quote(volume_id)));
}

base::StatusOr<LoopDevice> Pool::MapEmptied(const std::string& volume_id) {
  ASSIGN_OR_RETURN(const Record record, Get(Kind::kVolume, volume_id));
  if (record.content != Content::kFormatting) {
    return Error(StatusCode::kInternal, "volume {} is not emptied: its content is '{}'",
                 base::Quote(volume_id), NameOf(record.content));
  }
  RETURN_IF_ERROR(Unmap(volume_id));
  {
    ASSIGN_OR_RETURN(const base::UniqueFd image, OpenChecked(record, O_RDWR));
    RETURN_IF_ERROR(EmptyImage(image, record.size_bytes));
  }
  return Map(volume_id);
}

base::StatusOr<Record> Pool::GrowVolume(const std::string& id, const SizeRange& range) {
  ASSIGN_OR_RETURN(const auto hold, LockVolume(id));
  ASSIGN_OR_RETURN(Record record, Get(Kind::kVolume, id));
  if (range.limit > 0 && record.size_bytes > range.limit) {
    return Error(StatusCode::kOutOfRange, "volume {} has {} bytes already, above the limit of {}",
                 base::Quote(id), record.size_bytes, range.limit);
  }
  if (record.size_bytes >= range.required) return record;
  RETURN_IF_ERROR(CheckImage(record));
  const Record before = record;
  ASSIGN_OR_RETURN(record.size_bytes, ChooseSize(range, record.size_bytes));
  record.growing_from = before.size_bytes;
  record.grow_file_system =
      record.content == Content::kCopied || record.content == Content::kFormatted;
  RETURN_IF_ERROR(ReserveSpace(record));
  const base::Status written = [&] {
    RETURN_IF_ERROR(base::FaultPoint<"block.volume.grow.before">());
    return WriteRecord(record);
  }();
  if (!written.ok()) {
    base::MutexLock lock(mutex_);
    RememberRecord(before);
    return written;
  }
  RETURN_IF_ERROR(base::FaultPoint<"block.volume.grow.recorded">());
  RETURN_IF_ERROR(CompleteGrowth(record));
  return Get(Kind::kVolume, id);
}

// Grows an image to the size in its record. The record was written just now, or before a crash.
base::Status Pool::CompleteGrowth(Record record) {
  ASSIGN_OR_RETURN(const base::UniqueFd image, OpenChecked(record, O_RDWR));
  RETURN_IF_ERROR(ExtendImage(image, record.size_bytes));
  RETURN_IF_ERROR(base::FaultPoint<"block.volume.grow.extended">());
  const int64_t before = std::exchange(record.growing_from, 0);
  RETURN_IF_ERROR(UpdateRecord(record));
  LOG_INFO("volume {} has grown from {} to {} bytes", base::Quote(record.id), before,
           record.size_bytes);
  return base::OkStatus();
}

}  // namespace berth::block
