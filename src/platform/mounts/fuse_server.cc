#include "platform/mounts/fuse_server.h"

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

#include "base/log.h"
#include "platform/files/durable_file.h"
#include "platform/processes/child.h"
#include "platform/processes/process_info.h"

namespace berth::platform {
namespace {

// Whether `link`, such as /proc/PID/fd/N, leads to a device named "fuse". Its folder may vary,
// because /dev of a container may be elsewhere. Reading the link touches no file system.
bool IsFuseDevice(const std::string& link) {
  char name[64];
  const ssize_t size = readlink(link.c_str(), name, sizeof(name));
  return size > 0 && std::string_view(name, static_cast<size_t>(size)).ends_with("/fuse");
}

std::optional<uint64_t> ReadConnection(const std::string& fdinfo) {
  std::istringstream file(ReadFile(fdinfo).value_or(""));
  constexpr std::string_view kKey = "fuse_connection:";
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(kKey)) continue;
    const size_t begin = line.find_first_not_of(" \t", kKey.size());
    if (begin == std::string::npos) return std::nullopt;
    uint64_t id = 0;
    const auto [end, error] = std::from_chars(line.data() + begin, line.data() + line.size(), id);
    return error == std::errc() ? std::optional(id) : std::nullopt;
  }
  return std::nullopt;
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
  for (const pid_t pid : ListNumbers(proc)) {
    const std::string process = fmt::format("{}/{}", proc, pid);
    for (const int fd : ListNumbers(process + "/fd")) {
      if (!IsFuseDevice(fmt::format("{}/fd/{}", process, fd))) continue;
      if (const auto id = ReadConnection(fmt::format("{}/fdinfo/{}", process, fd))) {
        servers.known[*id].insert(pid);
      } else {
        servers.possible.insert(pid);
      }
    }
  }
  // If the kernel names the connection of one process, it names those of all. So the other
  // processes have mounted nothing yet.
  if (!servers.known.empty()) servers.possible.clear();
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
