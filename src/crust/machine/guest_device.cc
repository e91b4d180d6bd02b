#include "crust/machine/guest_device.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

#include "base/log.h"
#include "platform/errno.h"
#include "platform/processes/child.h"

namespace berth::crust {
namespace {

using base::Error;
using base::Quote;
using base::StatusCode;
using base::StatusOr;
using std::chrono::steady_clock;

constexpr std::chrono::seconds kDeviceTime(10);
// Checks whether a device is in use claim it for a moment, also those of this handler.
constexpr std::chrono::milliseconds kDeviceBusyTime(2'000);
constexpr std::chrono::milliseconds kDevicePoll(20);

// Runs in a child process. Returns a descriptor of the device, or a negative errno; -ESTALE: the
// path leads to another device.
int OpenDevice(const Device& device, bool read_only, Claim claim) {
  const int flags = (read_only ? O_RDONLY : O_RDWR) | (claim == Claim::kExclusive ? O_EXCL : 0) |
                    O_CLOEXEC | O_NONBLOCK;
  const int fd = open(device.source.c_str(), flags);
  if (fd < 0) return -errno;
  struct stat st;
  if (fstat(fd, &st) != 0) return -errno;
  return S_ISBLK(st.st_mode) && st.st_rdev == device.number ? fd : -ESTALE;
}

}  // namespace

StatusOr<base::UniqueFd> OpenForGuest(const Device& device, bool read_only, Claim claim) {
  const std::string what = fmt::format("open device {} for the guest", Quote(device.source));
  const auto deadline = steady_clock::now() + kDeviceBusyTime;
  while (true) {
    ASSIGN_OR_RETURN(platform::OpenedInChild opened,
                     platform::OpenInChild(what, kDeviceTime, [device, read_only, claim] {
                       return OpenDevice(device, read_only, claim);
                     }));
    if (opened.fd.valid()) return std::move(opened.fd);
    if (opened.error == ESTALE) {
      return Error(StatusCode::kFailedPrecondition,
                   "{}: the path now leads to another device, not {}:{}", what,
                   major(device.number), minor(device.number));
    }
    if (opened.error != EBUSY) return platform::ErrnoError(opened.error, what);
    if (steady_clock::now() >= deadline) {
      return Error(StatusCode::kFailedPrecondition,
                   "{}: it is in use on this host or by another sandbox, and two kernels cannot "
                   "share a file system",
                   what);
    }
    std::this_thread::sleep_for(kDevicePoll);
  }
}

}  // namespace berth::crust
