#include "block/images/loop_mappings.h"

#include <fcntl.h>
#include <linux/loop.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>

#include "base/fault.h"
#include "base/ids.h"
#include "base/log.h"
#include "base/text.h"
#include "block/device.h"
#include "block/mount_shutdown.h"
#include "block/sizes.h"
#include "platform/devices/device_file.h"
#include "platform/errno.h"
#include "platform/files/durable_file.h"
#include "platform/files/record_files.h"
#include "platform/processes/child.h"

namespace berth::block {

using base::Error;
using base::StatusCode;
using platform::LoopDevice;
using platform::LoopEntry;

namespace {

constexpr std::chrono::seconds kDeviceAnswerTime{10};
constexpr size_t kLabelSize = 63;
// The size of a device without sectors: no request fits, because the devices have blocks of
// kSectorSize.
constexpr uint64_t kEmptySize = 512;
// A file system remembers the sector size that it was made with and refuses a larger one. This is
// the largest one: direct I/O accepts it on every node and every kind of device.
constexpr uint32_t kSectorSize = 4096;

std::string_view FileNameOf(std::string_view path) {
  constexpr std::string_view kDeleted = " (deleted)";
  if (path.ends_with(kDeleted)) path.remove_suffix(kDeleted.size());
  return base::FileNameOf(path);
}

LoopDevice LoopOf(const Mapping& mapping) {
  return {.path = mapping.device,
          .device = mapping.device_number,
          .backing = LoopMappings::BackingOf(mapping),
          .read_only = mapping.read_only};
}

uint64_t SequenceOf(const Mapping& mapping) {
  return static_cast<uint64_t>(base::json::Int(mapping.state, {"sequence"}));
}

// Whether the device still is the attachment of the mapping. The kernel never uses a sequence
// number twice within one boot.
base::StatusOr<bool> IsStillAttached(const Mapping& mapping) {
  ASSIGN_OR_RETURN(const std::string boot_id, platform::ReadBootId());
  if (!platform::IsThisBoot(base::json::String(mapping.state, {"bootId"}), boot_id)) return false;
  ASSIGN_OR_RETURN(const uint64_t sequence, platform::ReadDiskSequence(mapping.device));
  return SequenceOf(mapping) == sequence;
}

// Opens the device in a child process and calls `act`, which returns 0 or an errno. OK if the
// device no longer is that mapping. `verb` begins the error message.
base::Status RunOnDevice(const Mapping& mapping, std::string_view verb,
                         std::chrono::milliseconds patience, int (*act)(int fd)) {
  return platform::RunInChild(fmt::format("{} {}", verb, mapping.device), patience,
                              [device = mapping.device, sequence = SequenceOf(mapping), act] {
                                const int fd = OpenAttachment(device.c_str(), sequence);
                                if (fd < 0) return fd == -ENODEV ? 0 : -fd;
                                const int error = act(fd);
                                close(fd);
                                return error;
                              });
}

int RemoveSectors(int fd) {
  loop_info64 info = {};
  if (ioctl(fd, LOOP_GET_STATUS64, &info) != 0) return errno == ENXIO ? 0 : errno;
  info.lo_sizelimit = kEmptySize;
  return ioctl(fd, LOOP_SET_STATUS64, &info) == 0 || errno == ENXIO ? 0 : errno;
}

int ReleaseDevice(int fd) { return ioctl(fd, LOOP_CLR_FD) == 0 || errno == ENXIO ? 0 : errno; }

}  // namespace

LoopMappings::LoopMappings(Options options, platform::Mounter& mounter)
    : options_(std::move(options)), mounter_(mounter) {}

// The label has digests of node, store and image, and then as much of the image's name as fits, for
// people.
std::string LoopMappings::LabelOf(std::string_view image) const {
  std::string label = fmt::format("berth {} {} {} {}", base::Sha256Hex(options_.node).substr(0, 12),
                                  base::Sha256Hex(options_.store).substr(0, 12),
                                  base::Sha256Hex(image).substr(0, 16), image);
  if (label.size() > kLabelSize) label.resize(kLabelSize);
  return label;
}

bool LoopMappings::IsMine(const LoopEntry& entry, std::string_view image) const {
  // A device with autoclear was forced off: it detaches with its last user and is no mapping any
  // more.
  if (entry.autoclear) return false;
  if (!entry.answered) return entry.image_path.starts_with(options_.folder + "/");
  return entry.label == LabelOf(image);
}

base::StatusOr<Mapping> LoopMappings::ToMapping(const LoopEntry& entry,
                                                std::string_view image) const {
  ASSIGN_OR_RETURN(std::string boot_id, platform::ReadBootId());
  return Mapping{.image = std::string(image),
                 .device = entry.loop.path,
                 .device_number = entry.loop.device,
                 .size_bytes = static_cast<int64_t>(entry.loop.size),
                 .read_only = entry.loop.read_only,
                 .state = {{"bootId", std::move(boot_id)},
                           {"sequence", entry.sequence},
                           {"directIo", entry.loop.direct_io},
                           {"dev", entry.loop.backing.dev},
                           {"ino", entry.loop.backing.ino}}};
}

platform::FileIdentity LoopMappings::BackingOf(const Mapping& mapping) {
  return {.dev = static_cast<dev_t>(base::json::Int(mapping.state, {"dev"})),
          .ino = static_cast<ino_t>(base::json::Int(mapping.state, {"ino"}))};
}

base::StatusOr<LoopMappings::Found> LoopMappings::Find(const std::string& image) const {
  ASSIGN_OR_RETURN(
      std::vector<LoopEntry> entries,
      platform::ListLoopEntries([&](std::string_view path) { return FileNameOf(path) == image; }));
  Found found;
  for (LoopEntry& entry : entries) {
    if (!IsMine(entry, image)) {
      found.others.push_back(std::move(entry));
      continue;
    }
    if (found.mine.has_value()) {
      return Error(StatusCode::kFailedPrecondition,
                   "image {} is attached twice, as {} and {}: detach the one that is not in use",
                   base::Quote(image), found.mine->device, entry.loop.path);
    }
    ASSIGN_OR_RETURN(found.mine, ToMapping(entry, image));
  }
  return found;
}

base::StatusOr<std::vector<Mapping>> LoopMappings::ListMappings() const {
  ASSIGN_OR_RETURN(const std::vector<LoopEntry> entries, platform::ListLoopEntries({}));
  std::vector<Mapping> mappings;
  for (const LoopEntry& entry : entries) {
    const std::string_view image = FileNameOf(entry.image_path);
    if (!IsMine(entry, image)) continue;
    ASSIGN_OR_RETURN(Mapping mapping, ToMapping(entry, image));
    mappings.push_back(std::move(mapping));
  }
  return mappings;
}

base::Status LoopMappings::Check(const Mapping& mapping) const {
  ASSIGN_OR_RETURN(const bool still, IsStillAttached(mapping));
  return still ? base::OkStatus() : NoLongerShownError(mapping);
}

base::StatusOr<Mapping> LoopMappings::Attach(const base::UniqueFd& file, const std::string& image,
                                             bool read_only) const {
  RETURN_IF_ERROR(base::FaultPoint<"block.map.before">());
  ASSIGN_OR_RETURN(
      const LoopDevice loop,
      platform::AttachLoop(
          file, {.read_only = read_only, .block_size = kSectorSize, .label = LabelOf(image)},
          kDeviceAnswerTime));
  RETURN_IF_ERROR(base::FaultPoint<"block.map.attached">());
  ASSIGN_OR_RETURN(const uint64_t sequence, platform::ReadDiskSequence(loop.path));
  return ToMapping({.loop = loop, .sequence = sequence}, image);
}

base::StatusOr<Mapping> LoopMappings::Refresh(const Mapping& mapping) const {
  ASSIGN_OR_RETURN(const bool still, IsStillAttached(mapping));
  if (!still) {
    return Error(StatusCode::kNotFound, "{} no longer shows image {}", mapping.device,
                 base::Quote(mapping.image));
  }
  RETURN_IF_ERROR(base::FaultPoint<"block.refresh.before">());
  ASSIGN_OR_RETURN(const uint64_t size,
                   platform::AskChild<uint64_t>(
                       "refresh the size of " + mapping.device, kDeviceAnswerTime,
                       [device = mapping.device](uint64_t& size) {
                         const int fd = open(device.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
                         if (fd < 0) return errno;
                         const int error = ioctl(fd, LOOP_SET_CAPACITY, 0) == 0
                                               ? platform::ReadBlockDeviceSize(fd, size)
                                               : errno;
                         close(fd);
                         return error;
                       }));
  Mapping now = mapping;
  now.size_bytes = static_cast<int64_t>(size);
  return now;
}

base::Status LoopMappings::Detach(const Mapping& mapping) const {
  ASSIGN_OR_RETURN(const bool still, IsStillAttached(mapping));
  if (!still) return base::OkStatus();
  RETURN_IF_ERROR(base::FaultPoint<"block.unmap.before">());
  RETURN_IF_ERROR(platform::DetachLoop(LoopOf(mapping), SequenceOf(mapping), kDeviceAnswerTime));
  return base::FaultPoint<"block.unmap.after">();
}

base::Status LoopMappings::ForceDetach(const Mapping& mapping,
                                       std::chrono::milliseconds patience) const {
  ASSIGN_OR_RETURN(const bool still, IsStillAttached(mapping));
  if (!still) return base::OkStatus();
  RETURN_IF_ERROR(base::FaultPoint<"block.force_unmap.before">());
  bool mounted = false;
  const base::Status shut_down =
      ShutDownMounts(mounter_, LoopOf(mapping), SequenceOf(mapping), patience, mounted);
  RETURN_IF_ERROR(base::FaultPoint<"block.force_unmap.shut_down">());
  // Recent kernels refuse this while a mount or an exclusive user holds the device.
  const base::Status emptied = RunOnDevice(mapping, "take the sectors of", patience, RemoveSectors);
  RETURN_IF_ERROR(base::FaultPoint<"block.force_unmap.emptied">());
  // The kernel detaches the device now, or when its last user closes it.
  const base::Status released = RunOnDevice(mapping, "release", patience, ReleaseDevice);
  RETURN_IF_ERROR(base::FaultPoint<"block.force_unmap.after">());
  ASSIGN_OR_RETURN(const bool attached, IsStillAttached(mapping));
  if (!attached) return base::OkStatus();
  if (emptied.ok() || (mounted && shut_down.ok())) {
    return base::Annotate(released, fmt::format("force image {} off", base::Quote(mapping.image)));
  }
  return Error(emptied.code() == StatusCode::kDeadlineExceeded ? StatusCode::kDeadlineExceeded
                                                               : StatusCode::kFailedPrecondition,
               "force image {} off {}: {}{}{}: programs that have it open may still write",
               base::Quote(mapping.image), mapping.device, mounted ? base::Message(shut_down) : "",
               mounted ? "; " : "", base::Message(emptied));
}

}  // namespace berth::block
