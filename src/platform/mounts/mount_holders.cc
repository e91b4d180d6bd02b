#include "platform/mounts/mount_holders.h"

#include <sys/sysmacros.h>
#include <unistd.h>

#include <set>

#include "base/log.h"
#include "platform/files/durable_file.h"
#include "platform/mounts/mounter.h"
#include "platform/processes/process_info.h"

namespace berth::platform {
namespace {

// The mount namespace of a process, given as "/proc/PID": "mnt:[4026531841]", or "" if it cannot be
// read.
std::string ReadNamespace(const std::string& process) {
  char name[64];
  const ssize_t size = readlink((process + "/ns/mnt").c_str(), name, sizeof(name));
  return size > 0 ? std::string(name, static_cast<size_t>(size)) : "";
}

}  // namespace

std::vector<MountHolder> FindMountHolders(dev_t device) {
  std::vector<MountHolder> out;
  const std::string own = ReadNamespace("/proc/self");
  std::set<std::string> seen;
  for (const pid_t pid : ListNumbers("/proc")) {
    const std::string process = fmt::format("/proc/{}", pid);
    const std::string space = ReadNamespace(process);
    if (space.empty() || !seen.insert(space).second) continue;
    const auto table = ReadMountTable(process + "/mountinfo");
    if (!table.ok()) continue;
    for (const MountEntry& mount : *table) {
      if (makedev(mount.major, mount.minor) != device) continue;
      std::string command = ReadFile(process + "/comm").value_or("");
      if (command.ends_with('\n')) command.pop_back();
      out.push_back({.pid = pid,
                     .name = std::move(command),
                     .where = mount.mount_point,
                     .here = space == own});
      break;
    }
  }
  return out;
}

std::string DescribeMountHolders(dev_t device) {
  std::string out;
  for (const MountHolder& holder : FindMountHolders(device)) {
    out += fmt::format("{} mounted at {}{}", out.empty() ? ";" : ",", base::Quote(holder.where),
                       holder.here ? ""
                                   : fmt::format(" in the mount namespace of process {} {}",
                                                 holder.pid, base::Quote(holder.name)));
  }
  return out;
}

}  // namespace berth::platform
