#include "platform/device_file.h"

#include <sys/stat.h>

#include <algorithm>

#include "base/log.h"
#include "platform/child.h"

namespace berth::platform {
namespace {

// What comes back from one child fits into its reply.
constexpr size_t kAtOnce = 1024;

}  // namespace

base::StatusOr<std::vector<DeviceFile>> LookAtDevices(const std::vector<std::string>& paths,
                                                      std::chrono::milliseconds timeout) {
  std::vector<DeviceFile> found(paths.size());
  for (size_t begin = 0; begin < paths.size(); begin += kAtOnce) {
    const size_t count = std::min(kAtOnce, paths.size() - begin);
    const std::string* path = &paths[begin];
    DeviceFile* out = &found[begin];
    RETURN_IF_ERROR(
        RunInChild(fmt::format("look at {}{}", base::Quote(*path), count > 1 ? " and others" : ""),
                   timeout, out, count * sizeof(DeviceFile), [path, out, count] {
                     for (size_t i = 0; i < count; ++i) {
                       struct stat info;
                       if (stat(path[i].c_str(), &info) != 0) continue;
                       out[i].present = true;
                       out[i].block = S_ISBLK(info.st_mode);
                       out[i].number = info.st_rdev;
                     }
                     return 0;
                   }));
  }
  return found;
}

}  // namespace berth::platform
