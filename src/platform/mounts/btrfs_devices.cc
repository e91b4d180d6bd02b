#include "platform/mounts/btrfs_devices.h"

#include <fcntl.h>
#include <linux/btrfs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/log.h"

namespace berth::platform {
namespace {

// Numbers of devices may have gaps, because devices can be removed.
constexpr uint64_t kMaxGap = 1024;

}  // namespace

int FindOtherDevices(int root, const char* source, bool alone, OtherDevices& other) {
  struct stat wanted;
  if (stat(source, &wanted) != 0) return errno;
  btrfs_ioctl_fs_info_args fs = {};
  if (ioctl(root, BTRFS_IOC_FS_INFO, &fs) != 0) return errno;
  other = {};
  uint64_t seen = 0;
  const uint64_t last = fs.max_id - std::min<uint64_t>(fs.max_id, kMaxGap);
  for (uint64_t id = fs.max_id; id > last && seen < fs.num_devices; --id) {
    btrfs_ioctl_dev_info_args device = {};
    device.devid = id;
    if (ioctl(root, BTRFS_IOC_DEV_INFO, &device) != 0) {
      if (errno == ENODEV) continue;
      return errno;
    }
    ++seen;
    const auto* path = reinterpret_cast<const char*>(device.path);
    struct stat found;
    if (stat(path, &found) == 0 && S_ISBLK(found.st_mode) && found.st_rdev == wanted.st_rdev) {
      other = {.count = alone && fs.num_devices > 1 ? fs.num_devices : 0};
      return 0;
    }
    const size_t length = strnlen(path, std::min(sizeof device.path, other.path.size() - 1));
    std::copy_n(path, length, other.path.data());
    other.path[length] = '\0';
  }
  other.count = std::max<uint64_t>(fs.num_devices, 1);
  return 0;
}

bool ForgetBtrfsDevice(const OtherDevices& other) {
  if (other.path[0] == '\0') return false;
  btrfs_ioctl_vol_args args = {};
  std::copy(other.path.begin(), other.path.end(), args.name);
  const int control = open("/dev/btrfs-control", O_RDWR | O_CLOEXEC);
  if (control < 0) return false;
  // Newer kernels forget a file system of one device when it is unmounted.
  const bool forgot = ioctl(control, BTRFS_IOC_FORGET_DEV, &args) == 0 || errno == ENOENT;
  close(control);
  return forgot;
}

std::string DescribeOther(const OtherDevices& other) {
  if (other.path[0] == '\0' && other.count > 1) {
    return fmt::format("this btrfs consists of {} devices, and a volume has one", other.count);
  }
  return fmt::format("the kernel showed the btrfs of device {} instead, which has the same UUID",
                     base::Quote(other.path.data()));
}

}  // namespace berth::platform
