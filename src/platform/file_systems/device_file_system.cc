#include "platform/file_systems/device_file_system.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "base/log.h"
#include "platform/file_systems/file_systems.h"
#include "platform/processes/child.h"

namespace berth::platform {
namespace {

using base::Error;
using base::Quote;
using base::StatusCode;

constexpr std::string_view kDefaultType = "ext4";

}  // namespace

base::StatusOr<std::string> ChooseFileSystemType(const std::string& device,
                                                 const std::string& asked) {
  ASSIGN_OR_RETURN(const auto found, ProbeSignature(device));
  return ChooseFileSystemType(device, asked, found);
}

base::StatusOr<std::string> ChooseFileSystemType(const std::string& device,
                                                 const std::string& asked,
                                                 const std::optional<Signature>& found) {
  if (!asked.empty()) {
    if (FindFileSystem(asked) != nullptr || (found && found->type == asked)) return asked;
    return Error(StatusCode::kFailedPrecondition,
                 "device {} holds {}, and a file system of type {} can be mounted but not made",
                 Quote(device), found ? found->type : "nothing", Quote(asked));
  }
  if (!found) return std::string(kDefaultType);
  if (found->usage == "filesystem") return found->type;
  return Error(StatusCode::kFailedPrecondition, "device {} holds {} ({}), no file system",
               Quote(device), found->type, found->usage);
}

base::Status PrepareFileSystem(Exec& exec, const std::string& device, const std::string& type) {
  const FileSystem* fs = FindFileSystem(type);
  if (fs == nullptr) return base::OkStatus();
  RETURN_IF_ERROR(FormatIfBlank(exec, device, type, {}));
  return fs->Check(exec, device, CheckDepth::kQuick);
}

base::StatusOr<bool> CheckUnlessClean(Exec& exec, const std::string& device, const FileSystem& fs,
                                      const std::optional<SuperblockBytes>& superblock) {
  if (superblock.has_value() && fs.NeedsNoQuickCheck(*superblock)) return true;
  RETURN_IF_ERROR(fs.Check(exec, device, CheckDepth::kQuick));
  return false;
}

base::Status ClearUnfinishedFormat(const std::string& device) {
  constexpr size_t kHead = 1024 * 1024;
  constexpr std::chrono::seconds kTime{30};
  return RunInChild(fmt::format("clear {} of a mkfs that was cut short", Quote(device)), kTime,
                    [device, zeros = std::string(kHead, '\0')] {
                      const int fd = open(device.c_str(), O_WRONLY | O_EXCL | O_CLOEXEC);
                      if (fd < 0 || pwrite(fd, zeros.data(), zeros.size(), 0) < 0 || fsync(fd) != 0)
                        return errno;
                      return 0;
                    });
}

base::StatusOr<SuperblockBytes> ReadSuperblock(const std::string& device, off_t offset) {
  constexpr std::chrono::seconds kTime{10};
  return AskChild<SuperblockBytes>(
      fmt::format("read the superblock of {}", Quote(device)), kTime,
      [device, offset](SuperblockBytes& read) {
        const int fd = open(device.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        return fd >= 0 && pread(fd, read.data(), read.size(), offset) >= 0 ? 0 : errno;
      });
}

base::StatusOr<int64_t> ReadFileSystemBytes(const FileSystem& fs, const std::string& device) {
  ASSIGN_OR_RETURN(const SuperblockBytes superblock,
                   ReadSuperblock(device, fs.superblock_offset()));
  return static_cast<int64_t>(fs.ComputeUsedBytes(superblock));
}

}  // namespace berth::platform
