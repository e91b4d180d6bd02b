#include "block/prepare.h"

#include "base/fault.h"
#include "base/log.h"
#include "platform/file_systems/device_file_system.h"
#include "platform/file_systems/file_system.h"

namespace berth::block {
namespace {

using base::Error;
using base::StatusCode;
using platform::LoopDevice;
using platform::Signature;

base::Status ForeignContentError(const Record& record, const LoopDevice& device,
                                 const std::optional<Signature>& found) {
  if (!found.has_value()) {
    return Error(StatusCode::kFailedPrecondition,
                 "volume {} should hold {} with UUID {}, but nothing is found on {}: it is not "
                 "formatted again; restore it from a snapshot or backup",
                 base::Quote(record.id), record.fs_type, record.fs_uuid, device.path);
  }
  return Error(
      StatusCode::kFailedPrecondition,
      "volume {} should hold {} {}, and {} holds {} with UUID '{}', which did not come from "
      "this driver: it is left as it is",
      base::Quote(record.id), record.fs_type,
      record.content == Content::kFormatted ? "with UUID " + record.fs_uuid : "of its own",
      device.path, found->type, found->uuid);
}

// Fails unless the probe finds exactly the recorded file system, of which it gives the superblock.
base::StatusOr<platform::SuperblockBytes> FindRecorded(const Record& record,
                                                       const LoopDevice& device) {
  ASSIGN_OR_RETURN(const std::optional<Signature> found, platform::ProbeSignature(device.path));
  if (found.has_value() && found->type == record.fs_type && found->uuid == record.fs_uuid) {
    return found->superblock;
  }
  return ForeignContentError(record, device, found);
}

// Makes the recorded file system on a device that has never had one. Gives the device, which is a
// new one if the image was emptied.
base::StatusOr<LoopDevice> FormatVolume(Pool& pool, platform::Exec& exec, Record& record,
                                        LoopDevice device) {
  ASSIGN_OR_RETURN(const std::optional<Signature> found, platform::ProbeSignature(device.path));
  if (record.content == Content::kFormatting) {
    // An interrupted mkfs leaves either the recorded UUID or nothing that a probe finds.
    if (found.has_value() && found->uuid != record.fs_uuid)
      return ForeignContentError(record, device, found);
    ASSIGN_OR_RETURN(device, pool.MapEmptied(record.id));
  } else {
    if (found.has_value()) return ForeignContentError(record, device, found);
    record.content = Content::kFormatting;
    RETURN_IF_ERROR(pool.UpdateRecord(record));
  }
  RETURN_IF_ERROR(
      platform::FormatIfBlank(exec, device.path, record.fs_type, {.uuid = record.fs_uuid}));
  RETURN_IF_ERROR(FindRecorded(record, device));
  record.content = Content::kFormatted;
  record.grow_file_system = false;
  RETURN_IF_ERROR(pool.UpdateRecord(record));
  return device;
}

// Gives the file system of a copy its own UUID, because two mounted file systems must not have the
// same one.
base::Status RenewUuid(Pool& pool, platform::Exec& exec, const platform::FileSystem& fs,
                       Record& record, const LoopDevice& device) {
  ASSIGN_OR_RETURN(const std::optional<Signature> found, platform::ProbeSignature(device.path));
  if (!found.has_value() || found->type != record.fs_type)
    return ForeignContentError(record, device, found);
  RETURN_IF_ERROR(base::FaultPoint<"block.prepare.new_uuid.before">());
  RETURN_IF_ERROR(fs.NewUuid(exec, device.path));
  RETURN_IF_ERROR(base::FaultPoint<"block.prepare.new_uuid.after">());
  ASSIGN_OR_RETURN(const std::optional<Signature> renewed, platform::ProbeSignature(device.path));
  if (!renewed.has_value() || renewed->uuid == found->uuid) {
    return Error(StatusCode::kInternal, "the file system on {} did not take a new UUID",
                 device.path);
  }
  record.fs_uuid = renewed->uuid;
  record.content = Content::kFormatted;
  return pool.UpdateRecord(record);
}

}  // namespace

base::StatusOr<LoopDevice> PrepareVolume(Pool& pool, platform::Exec& exec,
                                         const std::string& volume_id, const LoopDevice& mapped) {
  LoopDevice device = mapped;
  ASSIGN_OR_RETURN(Record record, pool.Get(Kind::kVolume, volume_id));
  const platform::FileSystem* fs = platform::FindFileSystem(record.fs_type);
  if (fs == nullptr) {
    return Error(StatusCode::kFailedPrecondition, "volume {} holds {}, which is not supported here",
                 base::Quote(volume_id), base::Quote(record.fs_type));
  }
  std::optional<platform::SuperblockBytes> superblock;
  switch (record.content) {
    case Content::kRaw:
      return Error(StatusCode::kInternal, "volume {} is a raw block volume",
                   base::Quote(volume_id));
    case Content::kBlank:
    case Content::kFormatting:
      return FormatVolume(pool, exec, record, device);
    case Content::kCopied:
      RETURN_IF_ERROR(RenewUuid(pool, exec, *fs, record, device));
      break;
    case Content::kFormatted: {
      ASSIGN_OR_RETURN(superblock, FindRecorded(record, device));
      break;
    }
  }
  if (!record.grow_file_system) {
    RETURN_IF_ERROR(base::FaultPoint<"block.prepare.check.before">());
    RETURN_IF_ERROR(platform::CheckUnlessClean(exec, device.path, *fs, superblock));
    RETURN_IF_ERROR(base::FaultPoint<"block.prepare.check.after">());
    return device;
  }
  RETURN_IF_ERROR(base::FaultPoint<"block.prepare.grow.before">());
  RETURN_IF_ERROR(fs->Resize(exec, device.path, /*mount_point=*/{}));
  RETURN_IF_ERROR(base::FaultPoint<"block.prepare.grow.after">());
  record.grow_file_system = false;
  RETURN_IF_ERROR(pool.UpdateRecord(record));
  return device;
}

}  // namespace berth::block
