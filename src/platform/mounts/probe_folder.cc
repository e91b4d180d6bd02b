#include "platform/mounts/probe_folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "base/log.h"
#include "platform/processes/child.h"

namespace berth::platform {

base::Status ProbeFolder(const std::string& folder, std::chrono::milliseconds timeout) {
  return RunInChild(fmt::format("open folder {}", base::Quote(folder)), timeout, [folder] {
    const int fd = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return errno;
    close(fd);
    return 0;
  });
}

}  // namespace berth::platform
