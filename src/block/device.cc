#include "block/device.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/unique_fd.h"
#include "platform/errno.h"

namespace berth::block {

base::Status SetReadOnly(const platform::LoopDevice& device, bool read_only) {
  const base::UniqueFd fd(open(device.path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  const int value = read_only ? 1 : 0;
  if (!fd.valid() || ioctl(fd.get(), BLKROSET, &value) != 0) {
    return platform::ErrnoError(
        errno, fmt::format("switch {} to {}", device.path, read_only ? "read-only" : "writable"));
  }
  return base::OkStatus();
}

base::Status FlushDevice(const platform::LoopDevice& device, bool exclusive) {
  const int flags = O_RDONLY | O_CLOEXEC | (exclusive ? O_EXCL : 0);
  const base::UniqueFd fd(open(device.path.c_str(), flags));
  if (!fd.valid() && errno == EBUSY) {
    return base::Error(
        base::StatusCode::kFailedPrecondition,
        "{} is mounted where this process does not see it, so that it cannot be frozen "
        "for a copy: copy it while no pod uses it",
        device.path);
  }
  if (!fd.valid() || fsync(fd.get()) != 0) {
    return platform::ErrnoError(errno, "flush " + device.path);
  }
  return base::OkStatus();
}

int OpenAttachment(const char* device, uint64_t sequence) {
  const int fd = open(device, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return errno == ENXIO ? -ENODEV : -errno;
  uint64_t now = 0;
  const int error = ioctl(fd, BLKGETDISKSEQ, &now) != 0 ? errno : now == sequence ? 0 : ENODEV;
  if (error == 0) return fd;
  close(fd);
  return -error;
}

}  // namespace berth::block
