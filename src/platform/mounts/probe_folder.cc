#include "platform/mounts/probe_folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/log.h"
#include "platform/processes/child.h"

namespace berth::platform {

namespace {

constexpr std::string_view kServed[] = {"9p",   "afs",    "beegfs", "ceph",
                                        "cifs", "lustre", "smb3",   "virtiofs"};

bool IsServed(std::string_view fs_type) {
  return fs_type.starts_with("nfs") || fs_type.starts_with("fuse") ||
         std::ranges::find(kServed, fs_type) != std::end(kServed);
}

}  // namespace

base::Status ProbeFolder(const std::string& folder, std::chrono::milliseconds timeout) {
  return RunInChild(fmt::format("open folder {}", base::Quote(folder)), timeout, [folder] {
    const int fd = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return errno;
    close(fd);
    return 0;
  });
}

const MountEntry* FindServedMount(const std::vector<MountEntry>& table, std::string_view path) {
  const auto found = std::ranges::find_if(table, [path](const MountEntry& mount) {
    const std::string& point = mount.mount_point;
    return path.starts_with(point) &&
           (path.size() == point.size() || point == "/" || path[point.size()] == '/') &&
           IsServed(mount.fs_type);
  });
  return found == table.end() ? nullptr : &*found;
}

}  // namespace berth::platform
