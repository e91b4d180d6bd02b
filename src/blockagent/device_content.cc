#include "blockagent/device_content.h"

#include "base/fault.h"
#include "base/ids.h"
#include "base/log.h"
#include "platform/file_systems/device_file_system.h"

namespace berth::blockagent {
namespace {

using base::Error;
using base::Quote;
using base::Status;
using base::StatusCode;
using base::StatusOr;
using platform::FileSystem;

// A file system leaves less than this unused at the end of its device.
constexpr int64_t kNoticeable = 64 * 1024;

// Runs mkfs. `over_own`: over the remains of this volume's interrupted mkfs, with the same UUID.
Status MakeFileSystem(platform::Exec& exec, const ContentRequest& request, const FileSystem& fs,
                      bool over_own) {
  const std::string uuid = over_own ? request.formatting_uuid : base::NewUuid();
  if (!over_own) RETURN_IF_ERROR(request.about_to_format(uuid));
  RETURN_IF_ERROR(base::FaultPoint<"blockagent.format.before">());
  if (over_own) {
    RETURN_IF_ERROR(platform::ClearUnfinishedFormat(request.device));
    RETURN_IF_ERROR(base::FaultPoint<"blockagent.format.cleared">());
    RETURN_IF_ERROR(fs.Format(exec, request.device, {.uuid = uuid, .force = true}));
  } else {
    RETURN_IF_ERROR(platform::FormatIfBlank(exec, request.device, fs.type(), {.uuid = uuid}));
  }
  return base::FaultPoint<"blockagent.format.after">();
}

// Grows a file system that uses `used` bytes of its device, if that is noticeably less than all.
Status GrowFrom(uint64_t used, platform::Exec& exec, const GrowRequest& request,
                const FileSystem& fs) {
  if (static_cast<int64_t>(used) + kNoticeable > request.device_bytes) return base::OkStatus();
  RETURN_IF_ERROR(base::FaultPoint<"blockagent.grow.before">());
  RETURN_IF_ERROR(fs.Resize(exec, request.device, platform::MountPoint(request.mount_point)));
  return base::FaultPoint<"blockagent.grow.after">();
}

// Checks and grows the file system before it is mounted, because every kernel can grow it then.
// `superblock` is what a probe of this file system has just read; nullopt: it was made since.
Status CheckAndGrow(platform::Exec& exec, const ContentRequest& request, const FileSystem& fs,
                    const std::optional<platform::SuperblockBytes>& superblock) {
  const GrowRequest growth{.device = request.device, .device_bytes = request.device_bytes};
  RETURN_IF_ERROR(base::FaultPoint<"blockagent.check.before">());
  ASSIGN_OR_RETURN(const bool clean,
                   platform::CheckUnlessClean(exec, request.device, fs, superblock));
  RETURN_IF_ERROR(base::FaultPoint<"blockagent.check.after">());
  if (!clean) return GrowContent(exec, growth, fs.type());
  return GrowFrom(fs.ComputeUsedBytes(*superblock), exec, growth, fs);
}

}  // namespace

StatusOr<std::string> PrepareContent(platform::Exec& exec, const ContentRequest& request) {
  const std::string& device = request.device;
  ASSIGN_OR_RETURN(const auto found, platform::ProbeSignature(device));
  ASSIGN_OR_RETURN(const std::string type,
                   platform::ChooseFileSystemType(device, request.fs_type, found));
  const FileSystem* fs = platform::FindFileSystem(type);
  if (fs == nullptr) return type;
  const bool own = !request.formatting_uuid.empty() &&
                   (!found.has_value() || found->uuid == request.formatting_uuid);
  std::optional<platform::SuperblockBytes> superblock;
  if (!found.has_value() || own) {
    if (request.read_only) {
      return Error(StatusCode::kFailedPrecondition,
                   "device {} is blank, but is to be mounted read-only: mount it once for writing",
                   Quote(device));
    }
    RETURN_IF_ERROR(MakeFileSystem(exec, request, *fs, own));
  } else if (found->type != type) {
    return Error(StatusCode::kFailedPrecondition,
                 "device {} holds {}, but {} is requested: it is left as it is", Quote(device),
                 found->type, type);
  } else {
    superblock = found->superblock;
  }
  if (!request.read_only) RETURN_IF_ERROR(CheckAndGrow(exec, request, *fs, superblock));
  return type;
}

Status GrowContent(platform::Exec& exec, const GrowRequest& request, std::string_view fs_type) {
  const FileSystem* fs = platform::FindFileSystem(fs_type);
  if (fs == nullptr) return base::OkStatus();
  ASSIGN_OR_RETURN(const int64_t used, platform::ReadFileSystemBytes(*fs, request.device));
  return GrowFrom(static_cast<uint64_t>(used), exec, request, *fs);
}

}  // namespace berth::blockagent
