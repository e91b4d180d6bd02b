#include "volume/device_file_system.h"

#include "base/log.h"
#include "platform/file_systems/file_system.h"

namespace berth::volume {
namespace {

using base::Error;
using base::Quote;
using base::StatusCode;

constexpr std::string_view kDefaultType = "ext4";

}  // namespace

base::StatusOr<std::string> FileSystemTypeFor(const std::string& device, const std::string& asked) {
  ASSIGN_OR_RETURN(const auto found, platform::ProbeSignature(device));
  if (!asked.empty()) {
    if (platform::FindFileSystem(asked) != nullptr || (found && found->type == asked)) return asked;
    return Error(StatusCode::kFailedPrecondition,
                 "device {} holds {}, and a file system of type {} can be mounted but not made",
                 Quote(device), found ? found->type : "nothing", Quote(asked));
  }
  if (!found) return std::string(kDefaultType);
  if (found->usage == "filesystem") return found->type;
  return Error(StatusCode::kFailedPrecondition, "device {} holds {} ({}), no file system",
               Quote(device), found->type, found->usage);
}

base::Status PrepareFileSystem(platform::Exec& exec, const std::string& device,
                               const std::string& type) {
  const platform::FileSystem* fs = platform::FindFileSystem(type);
  if (fs == nullptr) return base::OkStatus();
  RETURN_IF_ERROR(platform::FormatIfBlank(exec, device, type, {}));
  return fs->Check(exec, device, platform::CheckDepth::kQuick);
}

}  // namespace berth::volume
