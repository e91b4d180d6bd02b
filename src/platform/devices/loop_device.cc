#include "platform/devices/loop_device.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <linux/loop.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <optional>
#include <set>

#include "base/fault.h"
#include "base/log.h"
#include "base/text.h"
#include "base/unique_fd.h"
#include "platform/devices/device_file.h"
#include "platform/devices/free_loop.h"
#include "platform/devices/loop_table.h"
#include "platform/errno.h"
#include "platform/mounts/mount_holders.h"
#include "platform/processes/child.h"

namespace berth::platform {
namespace {

using base::Quote;
using base::StatusCode;
using base::UniqueFd;

constexpr int kLoopMajor = 7;
constexpr uint32_t kPageSize = 4096;
// Another process may attach to a free device before this one does. Then the next one is tried,
// this many times.
constexpr int kAttachTries = 64;
// udev and blkid open devices for a moment whenever something happens to them.
constexpr int kDetachTries = 20;
constexpr int kDetachPauseMs = 25;

std::string LoopPath(int number) { return fmt::format("/dev/loop{}", number); }

// The least block size that direct I/O to `image` allows.
uint32_t FindDirectBlockSize(int image) {
  struct statx st = {};
  if (statx(image, "", AT_EMPTY_PATH, STATX_DIOALIGN, &st) != 0 ||
      !(st.stx_mask & STATX_DIOALIGN)) {
    return 512;
  }
  return std::clamp<uint32_t>(st.stx_dio_offset_align, 512, kPageSize);
}

// Opens the device, and first makes its node if it is missing. If /dev is not a devtmpfs, as in a
// container, a device that the kernel made has no node yet.
UniqueFd OpenLoop(const std::string& path, int number, int flags) {
  UniqueFd fd(open(path.c_str(), flags | O_CLOEXEC));
  if (!fd.valid() && errno == ENOENT) {
    mknod(path.c_str(), S_IFBLK | 0600, makedev(kLoopMajor, static_cast<unsigned>(number)));
    fd.Reset(open(path.c_str(), flags | O_CLOEXEC));
  }
  return fd;
}

// Describes an open loop device; nullopt with errno ENXIO: nothing is attached.
std::optional<LoopDevice> ReadLoopStatus(int fd, const std::string& path) {
  loop_info64 info = {};
  if (ioctl(fd, LOOP_GET_STATUS64, &info) != 0) return {};
  LoopDevice loop;
  loop.path = path;
  struct stat st;
  if (fstat(fd, &st) == 0) loop.device = st.st_rdev;
  // The kernel's encoding of device numbers here is the one of stat(2).
  loop.backing = {static_cast<dev_t>(info.lo_device), static_cast<ino_t>(info.lo_inode)};
  loop.read_only = (info.lo_flags & LO_FLAGS_READ_ONLY) != 0;
  loop.direct_io = (info.lo_flags & LO_FLAGS_DIRECT_IO) != 0;
  int block_size = 0;
  if (ioctl(fd, BLKSSZGET, &block_size) == 0) loop.block_size = static_cast<uint32_t>(block_size);
  ReadBlockDeviceSize(fd, loop.size);  // stays 0 after an error
  return loop;
}

base::Status ReplacedError(const LoopDevice& loop) {
  return base::Error(StatusCode::kFailedPrecondition, "{} no longer belongs to that image",
                     Quote(loop.path));
}

loop_config MakeLoopConfig(int image, const std::string& name, const LoopOptions& options) {
  loop_config config = {};
  config.fd = static_cast<uint32_t>(image);
  config.block_size = options.block_size != 0 ? options.block_size
                      : options.direct_io     ? FindDirectBlockSize(image)
                                              : 512;
  config.info.lo_flags =
      (options.read_only ? LO_FLAGS_READ_ONLY : 0) | (options.direct_io ? LO_FLAGS_DIRECT_IO : 0);
  // The name is for people who run losetup and for programs that recognise their own devices; the
  // kernel's field cuts it.
  (options.label.empty() ? name : options.label)
      .copy(reinterpret_cast<char*>(config.info.lo_file_name), LO_NAME_SIZE - 1);
  return config;
}

// Returns 0, or the errno of LOOP_CONFIGURE. It does without direct I/O if the kernel refuses that.
// It makes only system calls.
int ConfigureLoop(int device, loop_config config) {
  if (ioctl(device, LOOP_CONFIGURE, &config) == 0) return 0;
  if ((config.info.lo_flags & LO_FLAGS_DIRECT_IO) == 0 || errno == EBUSY) return errno;
  config.info.lo_flags &= ~static_cast<uint32_t>(LO_FLAGS_DIRECT_IO);
  return ioctl(device, LOOP_CONFIGURE, &config) == 0 ? 0 : errno;
}

// Ends what BLKROSET did to the device for its last attachment, which the kernel keeps for the next
// one. It makes only system calls.
void EndReadOnly(int device) {
  int read_only = 0;
  ioctl(device, BLKROSET, &read_only);
}

// Names the attachment to detach: that of an image or, if `sequence` is not 0, the one with that
// number.
struct Attachment {
  FileIdentity backing;
  uint64_t sequence = 0;
};

// Returns 0 if the device is not that attachment any more, EAGAIN if it is, else another errno.
int LookForAttachment(int device, const Attachment& which) {
  if (which.sequence != 0) {
    uint64_t sequence = 0;
    if (ioctl(device, BLKGETDISKSEQ, &sequence) != 0) return errno;
    return sequence == which.sequence ? EAGAIN : 0;
  }
  loop_info64 info = {};
  if (ioctl(device, LOOP_GET_STATUS64, &info) != 0) return errno == ENXIO ? 0 : errno;
  const FileIdentity backing{static_cast<dev_t>(info.lo_device), static_cast<ino_t>(info.lo_inode)};
  return backing == which.backing ? EAGAIN : 0;
}

// One attempt to detach, by system calls alone. Returns 0 once the device is not that attachment
// any more, EAGAIN while another process has it open, EBUSY if it is mounted or held exclusively.
int DetachOnce(const char* path, const Attachment& which) {
  // O_EXCL fails on a device that is mounted or held by another exclusive user, and keeps them out.
  int fd = open(path, O_RDONLY | O_EXCL | O_CLOEXEC | O_NONBLOCK);
  // That user may have another image, which got the device after this attachment.
  const bool busy = fd < 0 && errno == EBUSY;
  if (busy) fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return errno == ENOENT || errno == ENXIO ? 0 : errno;
  const int error = [&] {
    const int there = LookForAttachment(fd, which);
    if (there == 0) return 0;
    if (busy) return EBUSY;
    if (there != EAGAIN) return there;
    if (ioctl(fd, LOOP_CLR_FD) != 0) return errno == ENXIO ? 0 : errno;
    // While another process has the device open, the kernel only marks it to be detached by its
    // last user, who must not be able to write to what he has read-only.
    loop_info64 info = {};
    if (ioctl(fd, LOOP_GET_STATUS64, &info) != 0) {
      if (errno != ENXIO) return EAGAIN;
      EndReadOnly(fd);
      return 0;
    }
    info.lo_flags &= ~static_cast<uint32_t>(LO_FLAGS_AUTOCLEAR);
    return ioctl(fd, LOOP_SET_STATUS64, &info) != 0 ? errno : EAGAIN;
  }();
  close(fd);
  return error;
}

base::StatusOr<UniqueFd> OpenImage(const std::string& image, const LoopOptions& options) {
  const int access = options.read_only ? O_RDONLY : O_RDWR;
  UniqueFd fd(open(image.c_str(), access | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat st;
  if (!fd.valid() || fstat(fd.get(), &st) != 0) {
    return ErrnoError(errno, fmt::format("open image {}", Quote(image)));
  }
  if (!S_ISREG(st.st_mode)) {
    return base::Error(StatusCode::kFailedPrecondition, "image {} is not a regular file",
                       Quote(image));
  }
  return fd;
}

}  // namespace

base::StatusOr<FileIdentity> IdentifyFile(const std::string& path) {
  struct stat st;
  if (lstat(path.c_str(), &st) != 0) return ErrnoError(errno, fmt::format("stat {}", Quote(path)));
  return FileIdentity{st.st_dev, st.st_ino};
}

namespace {

// Attaches an image to a free loop device. `configure` attaches it to the device that `device`
// holds, and returns 0 or an errno, or an error of its own.
base::StatusOr<LoopDevice> AttachToFreeLoop(
    const std::string& context, bool read_only,
    const std::function<base::StatusOr<int>(int device)>& configure) {
  const UniqueFd control(open("/dev/loop-control", O_RDWR | O_CLOEXEC));
  if (!control.valid()) return ErrnoError(errno, context + ": open /dev/loop-control");
  std::set<int> tried;
  for (int i = 0; i < kAttachTries; ++i) {
    ASSIGN_OR_RETURN(const FreeLoop free, FreeLoop::Find(control, tried, context));
    tried.insert(free.number());
    const std::string path = LoopPath(free.number());
    RETURN_IF_ERROR(base::FaultPoint<"platform.loop_attach.before">());
    const UniqueFd device = OpenLoop(path, free.number(), read_only ? O_RDONLY : O_RDWR);
    if (!device.valid()) {
      if (errno == ENXIO || errno == EBUSY) continue;  // removed or taken meanwhile
      return ErrnoError(errno, fmt::format("{}: open {}", context, path));
    }
    ASSIGN_OR_RETURN(const int error, configure(device.get()));
    if (error == EBUSY) continue;
    if (error != 0) return ErrnoError(error, fmt::format("{} to {}", context, path));
    if (!read_only) EndReadOnly(device.get());
    RETURN_IF_ERROR(base::FaultPoint<"platform.loop_attach.after">());
    std::optional<LoopDevice> loop = ReadLoopStatus(device.get(), path);
    if (!loop) return ErrnoError(errno, fmt::format("{}: status of {}", context, path));
    return *std::move(loop);
  }
  return base::Error(StatusCode::kResourceExhausted,
                     "{}: other processes took each of {} loop devices that were free", context,
                     kAttachTries);
}

}  // namespace

base::StatusOr<LoopDevice> AttachLoop(const std::string& image, const LoopOptions& options) {
  ASSIGN_OR_RETURN(const UniqueFd file, OpenImage(image, options));
  return AttachToFreeLoop(fmt::format("attach {}", Quote(image)), options.read_only,
                          [&](int device) -> base::StatusOr<int> {
                            return ConfigureLoop(device,
                                                 MakeLoopConfig(file.get(), image, options));
                          });
}

base::StatusOr<LoopDevice> AttachLoop(const UniqueFd& image, const LoopOptions& options,
                                      std::chrono::milliseconds timeout) {
  const std::string context = fmt::format("attach {}", Quote(options.label));
  const loop_config config = MakeLoopConfig(image.get(), "", options);
  return AttachToFreeLoop(context, options.read_only, [&](int device) -> base::StatusOr<int> {
    const auto configure = [device, config](int& error) {
      error = ConfigureLoop(device, config);
      return 0;
    };
    return AskChild<int>(context, timeout, configure, {device, image.get()});
  });
}

base::StatusOr<std::vector<LoopDevice>> FindLoops(const FileIdentity& backing,
                                                  std::string_view name) {
  constexpr std::string_view kDeleted = " (deleted)";
  ASSIGN_OR_RETURN(const std::vector<LoopEntry> entries,
                   ListLoopEntries([&](std::string_view image) {
                     if (image.ends_with(kDeleted)) image.remove_suffix(kDeleted.size());
                     return base::FileNameOf(image) == name;
                   }));
  std::vector<LoopDevice> loops;
  for (const LoopEntry& entry : entries) {
    if (!entry.answered) {
      return base::Error(StatusCode::kUnavailable,
                         "find the image of {}: the file system of {} does not answer",
                         entry.loop.path, Quote(entry.image_path));
    }
    if (entry.loop.backing == backing) loops.push_back(entry.loop);
  }
  return loops;
}

namespace {

base::Status RetryDetach(const LoopDevice& loop, const std::function<base::StatusOr<int>()>& once) {
  const std::string context = fmt::format("detach {}", Quote(loop.path));
  for (int i = 0; i < kDetachTries; ++i) {
    if (i > 0) poll(nullptr, 0, kDetachPauseMs);
    RETURN_IF_ERROR(base::FaultPoint<"platform.loop_detach.before">());
    ASSIGN_OR_RETURN(const int error, once());
    if (error == EAGAIN) continue;
    if (error != 0) {
      const base::Status failed = ErrnoError(error, context);
      if (error != EBUSY) return failed;
      return base::Status(failed.code(),
                          base::ToAbsl(fmt::format("{}{}", base::Message(failed),
                                                   DescribeMountHolders(loop.device))));
    }
    return base::FaultPoint<"platform.loop_detach.after">();
  }
  return base::Error(StatusCode::kFailedPrecondition, "{}: another process has it open", context);
}

}  // namespace

base::Status DetachLoop(const LoopDevice& loop) {
  return RetryDetach(loop, [&]() -> base::StatusOr<int> {
    return DetachOnce(loop.path.c_str(), {.backing = loop.backing});
  });
}

base::Status DetachLoop(const LoopDevice& loop, uint64_t sequence,
                        std::chrono::milliseconds timeout) {
  return RetryDetach(loop, [&]() -> base::StatusOr<int> {
    return AskChild<int>("detach " + loop.path, timeout, [path = loop.path, sequence](int& error) {
      error = DetachOnce(path.c_str(), {.sequence = sequence});
      return 0;
    });
  });
}

base::StatusOr<uint64_t> RefreshLoopSize(const LoopDevice& loop) {
  const std::string context = fmt::format("refresh the size of {}", Quote(loop.path));
  const UniqueFd fd(open(loop.path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) return ErrnoError(errno, context);
  std::optional<LoopDevice> now = ReadLoopStatus(fd.get(), loop.path);
  if (!now || !(now->backing == loop.backing)) return ReplacedError(loop);
  RETURN_IF_ERROR(base::FaultPoint<"platform.loop_refresh.before">());
  if (ioctl(fd.get(), LOOP_SET_CAPACITY, 0) != 0) return ErrnoError(errno, context);
  RETURN_IF_ERROR(base::FaultPoint<"platform.loop_refresh.after">());
  uint64_t size = 0;
  const int error = ReadBlockDeviceSize(fd.get(), size);
  if (error != 0) return ErrnoError(error, context);
  return size;
}

}  // namespace berth::platform
