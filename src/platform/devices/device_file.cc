#include "platform/devices/device_file.h"

#include <sys/stat.h>

#include "base/log.h"
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

}  // namespace berth::platform
