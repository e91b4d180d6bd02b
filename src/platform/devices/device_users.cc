#include "platform/devices/device_users.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/log.h"
#include "platform/processes/process_info.h"
#include "platform/processes/process_walk.h"

namespace berth::platform {
namespace {

using base::Error;
using base::StatusCode;

// Runs in a child, so it makes only system calls. The type and number of a device are in its inode,
// so no server of a file system is asked for them.
bool HasDeviceOpen(pid_t pid, dev_t device) {
  const int folder =
      open(ProcessPath("/proc", pid, "fd").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return false;
  bool found = false;
  alignas(dirent64) char entries[8192];
  for (ssize_t size = 0;
       !found && (size = syscall(SYS_getdents64, folder, entries, sizeof(entries))) > 0;) {
    for (ssize_t at = 0; !found && at < size;) {
      const auto* entry = reinterpret_cast<const dirent64*>(entries + at);
      at += entry->d_reclen;
      char target[2];
      // Sockets, pipes and the like have no absolute path.
      if (readlinkat(folder, entry->d_name, target, sizeof(target)) < 1 || target[0] != '/') {
        continue;
      }
      struct statx seen = {};
      if (statx(folder, entry->d_name, AT_NO_AUTOMOUNT | AT_STATX_DONT_SYNC, STATX_TYPE, &seen) ==
          0) {
        found =
            S_ISBLK(seen.stx_mode) && makedev(seen.stx_rdev_major, seen.stx_rdev_minor) == device;
      }
    }
  }
  close(folder);
  return found;
}

}  // namespace

base::StatusOr<std::vector<pid_t>> FindDeviceUsers(dev_t device, std::chrono::milliseconds within) {
  const auto asked =
      AskOfProcesses<bool>("look for who has a device open", ListNumbers("/proc"), within,
                           [device](pid_t pid, bool& has) { has = HasDeviceOpen(pid, device); });
  std::vector<pid_t> users;
  for (const auto& [pid, has] : asked.answers) {
    if (has) users.push_back(pid);
  }
  if (users.empty() && !asked.stuck.empty()) {
    return Error(StatusCode::kDeadlineExceeded,
                 "it is not known whether device {}:{} is open, because nobody can read what {} "
                 "has open",
                 major(device), minor(device), DescribeProcesses(asked.stuck));
  }
  return users;
}

std::string DescribeProcesses(const std::vector<pid_t>& pids) {
  constexpr size_t kMost = 4;
  std::string out;
  for (size_t i = 0; i < pids.size() && i < kMost; ++i) {
    const auto process = ReadProcess(pids[i]);
    out += fmt::format("{}process {}", out.empty() ? "" : ", ", pids[i]);
    if (process.ok()) out += fmt::format(" {}", base::Quote(process->name));
  }
  if (pids.size() > kMost) out += fmt::format(" and {} more", pids.size() - kMost);
  return out;
}

}  // namespace berth::platform
