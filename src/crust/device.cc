#include "crust/device.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <thread>

#include "base/log.h"
#include "platform/devices/device_file.h"
#include "platform/errno.h"
#include "platform/mounts/mount_holders.h"
#include "platform/processes/child.h"

namespace berth::crust {
namespace {

using base::Error;
using base::Quote;
using base::StatusCode;

constexpr std::chrono::seconds kTimeout(10);
constexpr std::chrono::seconds kReadTimeout(5);
// A read past the page cache needs memory and a length that fit the device's sectors.
constexpr size_t kBlock = 4096;
// The kernel reports no event when a device becomes free, so it is polled.
constexpr std::chrono::milliseconds kPollInterval(20);

// Runs in a child process. Returns a descriptor of the device, or a negative errno; -ESTALE: the
// path leads to another device.
int OpenDevice(const Device& device, int flags) {
  const int fd = open(device.source.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | flags);
  if (fd < 0) return -errno;
  struct stat st;
  if (fstat(fd, &st) != 0) return -errno;
  return S_ISBLK(st.st_mode) && st.st_rdev == device.number ? fd : -ESTALE;
}

}  // namespace

base::StatusOr<int64_t> ReadDeviceSize(const Device& device) {
  const std::string what = fmt::format("read the size of device {}", Quote(device.source));
  struct Found {
    int error;
    uint64_t bytes;
  };
  ASSIGN_OR_RETURN(const Found found,
                   platform::AskChild<Found>(what, kTimeout, [device](Found& found) {
                     const int fd = OpenDevice(device, 0);
                     found.error = fd < 0 ? -fd : platform::ReadBlockDeviceSize(fd, found.bytes);
                     return 0;
                   }));
  if (found.error == ESTALE) {
    return Error(StatusCode::kFailedPrecondition, "{}: the path now leads to another device", what);
  }
  if (found.error != 0) return platform::ErrnoError(found.error, what);
  return static_cast<int64_t>(found.bytes);
}

base::Status ReadFirstBlock(const Device& device, std::shared_ptr<void> alive) {
  return platform::RunInChild(fmt::format("read device {}", Quote(device.source)), kReadTimeout,
                              [device, alive] {
                                alignas(kBlock) std::array<char, kBlock> block;
                                const int fd = OpenDevice(device, O_DIRECT);
                                if (fd == -ESTALE) return 0;
                                if (fd < 0) return -fd;
                                return pread(fd, block.data(), block.size(), 0) < 0 ? errno : 0;
                              });
}

base::Status WaitUntilDeviceIsFree(const Device& device, std::chrono::milliseconds patience) {
  const std::string what = fmt::format("check whether device {} is free", Quote(device.source));
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (true) {
    ASSIGN_OR_RETURN(const int error, platform::AskChild<int>(what, kTimeout, [device](int& error) {
                       // A mount claims its device, so an open with O_EXCL fails meanwhile.
                       const int fd = OpenDevice(device, O_EXCL);
                       error = fd < 0 ? -fd : 0;
                       return 0;
                     }));
    // The device is free, or it is gone, or another device has its name.
    if (error == 0 || error == ENOENT || error == ENXIO || error == ENODEV || error == ESTALE) {
      return base::OkStatus();
    }
    if (error != EBUSY) return platform::ErrnoError(error, what);
    if (std::chrono::steady_clock::now() >= deadline) {
      const std::string holders = platform::DescribeMountHolders(device.number);
      return Error(StatusCode::kFailedPrecondition, "device {} is still in use{}",
                   Quote(device.source),
                   !holders.empty() ? holders
                                    : "; it is mounted nowhere, so a process has it open, or the "
                                      "kernel still ends its file system because the device does "
                                      "not answer");
    }
    std::this_thread::sleep_for(kPollInterval);
  }
}

}  // namespace berth::crust
