#include "blockagent/device_content.h"

#include <endian.h>
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <optional>

#include "base/fault.h"
#include "base/ids.h"
#include "base/log.h"
#include "platform/file_systems/file_system.h"
#include "platform/processes/child.h"

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
constexpr std::string_view kDefaultType = "ext4";

// The flag that makes mkfs overwrite what is there.
std::vector<std::string> ForceFlag(std::string_view type) { return {type == "ext4" ? "-F" : "-f"}; }

uint32_t At32(const char* bytes) {
  uint32_t value;
  memcpy(&value, bytes, sizeof(value));
  return value;
}
uint64_t At64(const char* bytes) {
  uint64_t value;
  memcpy(&value, bytes, sizeof(value));
  return value;
}

// The parts of a device where file systems keep their superblocks.
struct Superblocks {
  std::array<char, 4096> ext4_or_xfs, btrfs;
};

// How many bytes of its device a file system uses; nullopt: this type keeps its size elsewhere.
std::optional<int64_t> BytesOf(std::string_view type, const Superblocks& read) {
  constexpr uint32_t kExt4With64Bit = 0x80;
  if (type == "ext4") {
    const char* super = read.ext4_or_xfs.data() + 1024;
    uint64_t blocks = le32toh(At32(super + 0x4));
    if ((le32toh(At32(super + 0x60)) & kExt4With64Bit) != 0) {
      blocks |= static_cast<uint64_t>(le32toh(At32(super + 0x150))) << 32;
    }
    return static_cast<int64_t>(blocks << (10 + (le32toh(At32(super + 0x18)) & 0x1f)));
  }
  if (type == "xfs") {
    return static_cast<int64_t>(be64toh(At64(read.ext4_or_xfs.data() + 8)) *
                                be32toh(At32(read.ext4_or_xfs.data() + 4)));
  }
  if (type == "btrfs") return static_cast<int64_t>(le64toh(At64(read.btrfs.data() + 0x70)));
  return std::nullopt;
}

// Reads only the superblocks, which a probe or the kernel has just read. A child process does it,
// because the back end may have died meanwhile.
StatusOr<std::optional<int64_t>> ContentBytes(const std::string& device, std::string_view type) {
  constexpr off_t kBtrfsSuperblock = 64 * 1024;
  constexpr std::chrono::seconds kTime{10};
  ASSIGN_OR_RETURN(const Superblocks read,
                   platform::AskChild<Superblocks>(
                       fmt::format("read the superblock of {}", Quote(device)), kTime,
                       [device, is_btrfs = type == "btrfs"](Superblocks& supers) {
                         const auto fill = [](int fd, std::array<char, 4096>& block, off_t offset) {
                           return pread(fd, block.data(), block.size(), offset) >= 0;
                         };
                         const int fd = open(device.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
                         const bool done = fd >= 0 && fill(fd, supers.ext4_or_xfs, 0) &&
                                           (!is_btrfs || fill(fd, supers.btrfs, kBtrfsSuperblock));
                         return done ? 0 : errno;
                       }));
  return BytesOf(type, read);
}

// Chooses the type for the mount, from the request and from what a probe found on the device.
StatusOr<std::string> TypeOf(const ContentRequest& request,
                             const std::optional<platform::Signature>& found) {
  if (request.fs_type.empty() && !found.has_value()) return std::string(kDefaultType);
  if (request.fs_type.empty()) {
    if (found->usage == "filesystem") return found->type;
    return Error(StatusCode::kFailedPrecondition, "device {} holds {} ({}), no file system",
                 Quote(request.device), found->type, found->usage);
  }
  if (platform::FindFileSystem(request.fs_type) != nullptr ||
      (found.has_value() && found->type == request.fs_type)) {
    return request.fs_type;
  }
  return Error(StatusCode::kFailedPrecondition,
               "device {} holds {}, and a file system of type {} can be mounted but not made",
               Quote(request.device), found.has_value() ? found->type : "nothing",
               Quote(request.fs_type));
}

// Clears the superblock at the beginning of the device, because mkfs.btrfs refuses a UUID that it
// finds in use.
Status ClearHead(const std::string& device) {
  constexpr size_t kHead = 1024 * 1024;
  constexpr std::chrono::seconds kTime{30};
  return platform::RunInChild(
      fmt::format("clear {} of a mkfs that was cut short", Quote(device)), kTime,
      [device, zeros = std::string(kHead, '\0')] {
        const int fd = open(device.c_str(), O_WRONLY | O_EXCL | O_CLOEXEC);
        if (fd < 0 || pwrite(fd, zeros.data(), zeros.size(), 0) < 0 || fsync(fd) != 0) return errno;
        return 0;
      });
}

Status Make(platform::Exec& exec, const ContentRequest& request, const FileSystem& fs,
            bool over_own) {
  const std::string uuid = over_own ? request.formatting_uuid : base::NewUuid();
  if (!over_own) RETURN_IF_ERROR(request.about_to_format(uuid));
  RETURN_IF_ERROR(base::FaultPoint<"blockagent.format.before">());
  if (over_own) {
    RETURN_IF_ERROR(ClearHead(request.device));
    RETURN_IF_ERROR(base::FaultPoint<"blockagent.format.cleared">());
    RETURN_IF_ERROR(fs.Format(exec, request.device, {.uuid = uuid, .extra = ForceFlag(fs.type())}));
  } else {
    RETURN_IF_ERROR(platform::FormatIfBlank(exec, request.device, fs.type(), {.uuid = uuid}));
  }
  return base::FaultPoint<"blockagent.format.after">();
}

}  // namespace

StatusOr<std::string> ReadyContent(platform::Exec& exec, const ContentRequest& request) {
  const std::string& device = request.device;
  ASSIGN_OR_RETURN(const auto found, platform::ProbeSignature(device));
  ASSIGN_OR_RETURN(const std::string type, TypeOf(request, found));
  const FileSystem* fs = platform::FindFileSystem(type);
  if (fs == nullptr) return type;
  const bool own = !request.formatting_uuid.empty() &&
                   (!found.has_value() || found->uuid == request.formatting_uuid);
  if (!found.has_value() || own) {
    if (request.read_only) {
      return Error(StatusCode::kFailedPrecondition,
                   "device {} is blank, and to be used read-only: mount it once for writing",
                   Quote(device));
    }
    RETURN_IF_ERROR(Make(exec, request, *fs, own));
  } else if (found->type != type) {
    return Error(StatusCode::kFailedPrecondition,
                 "device {} holds {}, and {} is asked for: it is left as it is", Quote(device),
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
  ASSIGN_OR_RETURN(const std::optional<int64_t> bytes, ContentBytes(device, fs_type));
  if (!bytes.has_value() || *bytes + kNoticeable > device_bytes) return base::OkStatus();
  RETURN_IF_ERROR(base::FaultPoint<"blockagent.grow.before">());
  RETURN_IF_ERROR(fs->Resize(exec, device, mount_point));
  return base::FaultPoint<"blockagent.grow.after">();
}

}  // namespace berth::blockagent
