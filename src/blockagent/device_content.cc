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
  }
  if (request.read_only) return type;
  RETURN_IF_ERROR(base::FaultPoint<"blockagent.check.before">());
  RETURN_IF_ERROR(fs->Check(exec, device, platform::CheckDepth::kQuick));
  RETURN_IF_ERROR(base::FaultPoint<"blockagent.check.after">());
  return type;
}

Status GrowContent(platform::Exec& exec, const std::string& device, int64_t device_bytes,
                   const std::string& fs_type, const std::string& mount_point) {
  const FileSystem* fs = platform::FindFileSystem(fs_type);
  if (fs == nullptr) return base::OkStatus();
  ASSIGN_OR_RETURN(const int64_t bytes, platform::ReadFileSystemBytes(*fs, device));
  if (bytes + kNoticeable > device_bytes) return base::OkStatus();
  RETURN_IF_ERROR(base::FaultPoint<"blockagent.grow.before">());
  RETURN_IF_ERROR(fs->Resize(exec, device, mount_point));
  return base::FaultPoint<"blockagent.grow.after">();
}

}  // namespace berth::blockagent
