#include "platform/mounts/fuse_server.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <optional>
#include <sstream>
#include <string_view>
#include <vector>

#include "base/files/whole_file.h"
#include "base/log.h"
#include "platform/files/durable_file.h"
#include "platform/processes/child.h"
#include "platform/processes/process_info.h"
#include "platform/processes/process_walk.h"

namespace berth::platform {
namespace {

constexpr std::chrono::seconds kWalkTime(10);

std::optional<uint64_t> ReadConnection(const std::string& fdinfo) {
  // The line is one of the first. Those of an inotify or epoll descriptor may be many.
  constexpr size_t kMost = 4096;
  std::string text;
  base::ReadWholeFile(fdinfo, kMost, text);
  std::istringstream lines(text);
  constexpr std::string_view kKey = "fuse_connection:";
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(kKey)) continue;
    const size_t begin = line.find_first_not_of(" \t", kKey.size());
    if (begin == std::string::npos) return std::nullopt;
    uint64_t id = 0;
    const auto [end, error] = std::from_chars(line.data() + begin, line.data() + line.size(), id);
    return error == std::errc() ? std::optional(id) : std::nullopt;
  }
  return std::nullopt;
}

// Whether a descriptor of the process leads to a device named "fuse". Its folder may vary, because
// /dev of a container may be elsewhere. Reading a link touches no file system, but can block for
// ever (process_walk.h), so this runs in a child.
bool HoldsFuseDevice(std::string_view proc, pid_t pid) {
  const int folder = open(ProcessPath(proc, pid, "fd").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return false;
  bool holds = false;
  alignas(dirent64) char entries[8192];
  for (ssize_t size = 0;
       !holds && (size = syscall(SYS_getdents64, folder, entries, sizeof(entries))) > 0;) {
    for (ssize_t at = 0; !holds && at < size;) {
      const auto* entry = reinterpret_cast<const dirent64*>(entries + at);
      char target[64];
      const ssize_t length = readlinkat(folder, entry->d_name, target, sizeof(target));
      holds =
          length > 0 && std::string_view(target, static_cast<size_t>(length)).ends_with("/fuse");
      at += entry->d_reclen;
    }
  }
  close(folder);
  return holds;
}

// The container's id: 64 hexadecimal digits between other characters. The last one of the line
// counts, because a pod's container is below the pod.
std::string FindContainerId(std::string_view cgroup) {
  constexpr size_t kDigits = 64;
  std::string found;
  for (size_t begin = 0; begin < cgroup.size();) {
    size_t end = begin;
    while (end < cgroup.size() && std::isxdigit(static_cast<unsigned char>(cgroup[end]))) ++end;
    if (end - begin == kDigits) found = cgroup.substr(begin, kDigits);
    begin = end + 1;
  }
  return found;
}

// Finds "pod" and a UID, with dashes, or with underscores where systemd names the folders.
std::string FindPodUid(std::string_view cgroup) {
  constexpr size_t kLength = 36;
  for (size_t at = cgroup.find("pod"); at != std::string_view::npos;
       at = cgroup.find("pod", at + 1)) {
    std::string uid(cgroup.substr(at + 3, kLength));
    std::replace(uid.begin(), uid.end(), '_', '-');
    const bool is_uid = uid.size() == kLength && std::count(uid.begin(), uid.end(), '-') == 4 &&
                        std::all_of(uid.begin(), uid.end(),
                                    [](unsigned char c) { return std::isxdigit(c) || c == '-'; });
    if (is_uid) return uid;
  }
  return "";
}

}  // namespace

bool IsFuse(const MountEntry& mount) {
  return mount.fs_type == "fuse" || mount.fs_type.starts_with("fuse.") ||
         mount.fs_type == "fuseblk";
}

uint64_t ToFuseConnection(uint32_t major, uint32_t minor) {
  // The kernel prints its own numbering of devices.
  constexpr int kMinorBits = 20;
  return uint64_t{major} << kMinorBits | minor;
}

const std::set<pid_t>& FuseServers::GetServers(uint64_t connection) const {
  const auto found = known.find(connection);
  return found != known.end() ? found->second : possible;
}

FuseServers FindFuseServers(const std::string& proc) {
  FuseServers servers;
  const std::vector<pid_t> pids = ListNumbers(proc);
  for (const pid_t pid : pids) {
    const std::string folder = fmt::format("{}/{}/fdinfo", proc, pid);
    for (const int fd : ListNumbers(folder)) {
      if (const auto id = ReadConnection(fmt::format("{}/{}", folder, fd))) {
        servers.known[*id].insert(pid);
      }
    }
  }
  // If the kernel names the connection of one process, it names those of all. So the other
  // processes have mounted nothing yet.
  if (!servers.known.empty()) return servers;
  const auto asked =
      AskOfProcesses<bool>("look for FUSE servers", pids, kWalkTime,
                           [proc](pid_t pid, bool& holds) { holds = HoldsFuseDevice(proc, pid); });
  for (const auto& [pid, holds] : asked.answers) {
    if (holds) servers.possible.insert(pid);
  }
  return servers;
}

FuseServer DescribeFuseServer(pid_t pid, const std::string& proc) {
  FuseServer server{.pid = pid};
  const std::string name = ReadFile(fmt::format("{}/{}/comm", proc, pid)).value_or("");
  server.name = name.substr(0, name.find('\n'));
  std::istringstream cgroups(ReadFile(fmt::format("{}/{}/cgroup", proc, pid)).value_or(""));
  for (std::string line; std::getline(cgroups, line);) {
    if (server.container.empty()) server.container = FindContainerId(line);
    if (server.pod_uid.empty()) server.pod_uid = FindPodUid(line);
  }
  return server;
}

FuseAnswer AskFuse(const std::string& mount_point, std::chrono::milliseconds timeout) {
  // statfs is used, because the kernel never caches its answer and always asks the server.
  const base::StatusOr<int> error =
      AskChild<int>(fmt::format("ask the server of {}", base::Quote(mount_point)), timeout,
                    [mount_point](int& error) {
                      struct statfs answer;
                      error = statfs(mount_point.c_str(), &answer) == 0 ? 0 : errno;
                      return 0;
                    });
  if (!error.ok()) return FuseAnswer::kSilent;
  return *error == ENOTCONN || *error == ECONNABORTED ? FuseAnswer::kDead : FuseAnswer::kAnswers;
}

}  // namespace berth::platform
