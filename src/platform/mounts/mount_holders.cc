#include "platform/mounts/mount_holders.h"

#include <sys/sysmacros.h>

#include <map>
#include <optional>
#include <set>

#include "base/files/whole_file.h"
#include "base/log.h"
#include "platform/files/durable_file.h"
#include "platform/mounts/mounter.h"
#include "platform/processes/process_info.h"

namespace berth::platform {
namespace {

// The beginning of a mount table. It names the namespace, because no two namespaces have a mount
// with the same id. Processes of one namespace with different roots may have different first
// mounts. The link ns/mnt names it, too, but reading that can block for ever (process_walk.h).
std::string ReadFirstMountId(const std::string& process) {
  constexpr size_t kMost = 256;
  std::string beginning;
  base::ReadWholeFile(process + "/mountinfo", kMost, beginning);
  return beginning.substr(0, beginning.find(' '));
}

}  // namespace

std::vector<MountHolder> FindMountHolders(dev_t device) {
  constexpr size_t kMostPids = 4;
  std::vector<MountHolder> out;
  std::set<uint64_t> own;
  if (const auto table = ReadMountTable("/proc/self/mountinfo"); table.ok()) {
    for (const MountEntry& mount : *table) own.insert(mount.id);
  }
  std::set<uint64_t> found;                           // the ids of the mounts in `out`
  std::map<std::string, std::optional<size_t>> seen;  // the index of the namespace's holder
  for (const pid_t pid : ListNumbers("/proc")) {
    const std::string process = fmt::format("/proc/{}", pid);
    const std::string space = ReadFirstMountId(process);
    if (space.empty()) continue;
    const auto [known, is_new] = seen.try_emplace(space);
    if (!is_new) {
      if (!known->second.has_value()) continue;
      std::vector<pid_t>& pids = out[*known->second].pids;
      if (pids.size() < kMostPids) pids.push_back(pid);
      continue;
    }
    const auto table = ReadMountTable(process + "/mountinfo");
    if (!table.ok()) {
      seen.erase(known);  // the process has ended, but others of the namespace may live
      continue;
    }
    for (const MountEntry& mount : *table) {
      if (makedev(mount.major, mount.minor) != device) continue;
      if (!found.insert(mount.id).second) break;  // a process with another root showed it
      std::string command = ReadFile(process + "/comm").value_or("");
      if (command.ends_with('\n')) command.pop_back();
      known->second = out.size();
      out.push_back({.pids = {pid},
                     .name = std::move(command),
                     .container = ReadContainerId(pid),
                     .where = mount.mount_point,
                     .here = own.contains(mount.id)});
      break;
    }
  }
  return out;
}

std::string DescribeMountHolders(dev_t device) {
  std::string out;
  for (const MountHolder& holder : FindMountHolders(device)) {
    out += fmt::format("{} mounted at {}", out.empty() ? ";" : ",", base::Quote(holder.where));
    if (holder.here) continue;
    out += fmt::format(" in the mount namespace of process {} {}", holder.pids.front(),
                       base::Quote(holder.name));
    if (!holder.container.empty()) out += " of container " + holder.container;
  }
  return out;
}

}  // namespace berth::platform
