#include "platform/devices/device_file.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include <cerrno>

#include "base/log.h"
#include "base/unique_fd.h"
#include "platform/processes/child.h"

namespace berth::platform {

base::StatusOr<std::vector<DeviceFile>> LookAtDevices(const std::vector<std::string>& paths,
                                                      std::chrono::milliseconds timeout) {
  if (paths.empty()) return std::vector<DeviceFile>();
  return AskChildForEach<DeviceFile>(fmt::format("look at {}{}", base::Quote(paths.front()),
                                                 paths.size() > 1 ? " and others" : ""),
                                     timeout, paths.size(), [paths](std::span<DeviceFile> found) {
                                       for (size_t i = 0; i < found.size(); ++i) {
                                         struct stat info;
                                         if (stat(paths[i].c_str(), &info) != 0) continue;
                                         found[i].present = true;
                                         found[i].block = S_ISBLK(info.st_mode);
                                         found[i].number = info.st_rdev;
                                       }
                                       return 0;
                                     });
}

int ReadBlockDeviceSize(int fd, uint64_t& bytes) {
  return ioctl(fd, BLKGETSIZE64, &bytes) == 0 ? 0 : errno;
}

int ReadBlockDeviceSize(const char* path, uint64_t& bytes) {
  const base::UniqueFd fd(open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  return fd.valid() ? ReadBlockDeviceSize(fd.get(), bytes) : errno;
}

}  // namespace berth::platform
