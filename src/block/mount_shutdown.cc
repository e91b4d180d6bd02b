#include "block/mount_shutdown.h"

#include <fcntl.h>
#include <linux/types.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <set>

#include "base/log.h"
#include "block/mounts.h"
#include "platform/mounts/mount_holders.h"
#include "platform/processes/child.h"

namespace berth::block {
namespace {

#ifndef FS_IOC_SHUTDOWN
#define FS_IOC_SHUTDOWN _IOR('X', 125, __u32)
#endif
// Shuts down without writing the log first, because that write could wait for ever.
constexpr uint32_t kAtOnce = 2;

// Reads the number in a file of sysfs. Makes system calls only; returns 0 if there is none.
uint64_t ReadSysfsNumber(const char* path) {
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  char text[32] = {};
  const ssize_t size = read(fd, text, sizeof text - 1);
  close(fd);
  return size > 0 ? strtoull(text, nullptr, 10) : 0;
}

// Shuts down the file system of the open file `fd`. Makes system calls only; returns 0 or an errno.
// It checks the file system and the attachment again, because both may have changed since the mount
// table was read. They cannot change now, because the open file keeps the file system mounted and
// so its device in use. The device itself is not opened, because a sync(2) that waits for it, of
// any process, holds up each open.
int ShutDown(int fd, const char* sequence_path, dev_t number, uint64_t sequence) {
  struct stat st;
  if (fstat(fd, &st) != 0) return errno;
  if (st.st_dev != number || ReadSysfsNumber(sequence_path) != sequence) return ENODEV;
  uint32_t how = kAtOnce;
  return ioctl(fd, FS_IOC_SHUTDOWN, &how) == 0 ? 0 : errno;
}

}  // namespace

base::Status ShutDownMounts(platform::Mounter& mounter, const platform::LoopDevice& device,
                            uint64_t sequence, std::chrono::milliseconds patience, bool& mounted) {
  std::set<std::string> paths;
  ASSIGN_OR_RETURN(const std::vector<platform::MountEntry> table, mounter.List());
  for (const platform::MountEntry& entry : table) {
    if (ShowsFileSystemOf(entry, device)) paths.insert(entry.mount_point);
  }
  if (paths.empty()) {
    for (const platform::MountHolder& holder : platform::FindMountHolders(device.device)) {
      for (const pid_t pid : holder.pids) {
        paths.insert(fmt::format("/proc/{}/root{}", pid, holder.where));
      }
    }
  }
  mounted = !paths.empty();
  const std::string sequence_path =
      fmt::format("/sys/dev/block/{}:{}/diskseq", major(device.device), minor(device.device));
  base::Status last;
  for (const std::string& path : paths) {
    last = platform::RunInChild(
        fmt::format("shut down the file system at {}", base::Quote(path)), patience,
        [path, sequence_path, number = device.device, sequence] {
          // A container may have put a link to a device there, whose open would have an effect.
          const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NONBLOCK);
          if (fd < 0) return errno;
          const int error = ShutDown(fd, sequence_path.c_str(), number, sequence);
          close(fd);
          return error;
        });
    if (last.ok()) return last;  // all show one file system
  }
  return last;
}

}  // namespace berth::block
