#include "platform/mounts/fuse_server.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <climits>
#include <optional>
#include <sstream>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "platform/files/durable_file.h"
#include "platform/processes/child.h"
#include "platform/processes/process_info.h"
#include "platform/processes/process_walk.h"

namespace berth::platform {
namespace {

constexpr std::chrono::seconds kWalkTime(10);

// The functions that run in a child make only system calls.

int OpenProcessFolder(std::string_view proc, pid_t pid, std::string_view name) {
  return open(ProcessPath(proc, pid, name).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

// Calls `visit` with the name of each descriptor of the process that leads to a device named
// "fuse", until it returns false. The device's folder may vary, because /dev of a container may be
// elsewhere. Reading a link touches no file system, but can block for ever (process_walk.h), so
// this runs in a child.
template <typename Visit>
void ForEachFuseDevice(std::string_view proc, pid_t pid, const Visit& visit) {
  const int folder = OpenProcessFolder(proc, pid, "fd");
  if (folder < 0) return;
  alignas(dirent64) char entries[8192];
  bool more = true;
  for (ssize_t size = 0;
       more && (size = syscall(SYS_getdents64, folder, entries, sizeof(entries))) > 0;) {
    for (ssize_t at = 0; more && at < size;) {
      const auto* entry = reinterpret_cast<const dirent64*>(entries + at);
      char target[PATH_MAX];
      const ssize_t length = readlinkat(folder, entry->d_name, target, sizeof(target));
      if (length > 0 && std::string_view(target, static_cast<size_t>(length)).ends_with("/fuse")) {
        more = visit(entry->d_name);
      }
      at += entry->d_reclen;
    }
  }
  close(folder);
}

// The connection that the kernel names in the file of the folder fdinfo.
std::optional<uint64_t> ReadConnection(int fdinfo, const char* fd) {
  constexpr std::string_view kKey = "\nfuse_connection:\t";  // "pos" is the first line
  const int file = openat(fdinfo, fd, O_RDONLY | O_CLOEXEC);
  if (file < 0) return std::nullopt;
  char text[4096];  // the kernel gives all in one read
  const ssize_t size = read(file, text, sizeof(text));
  close(file);
  if (size <= 0) return std::nullopt;
  const std::string_view info(text, static_cast<size_t>(size));
  const size_t at = info.find(kKey);
  if (at == std::string_view::npos) return std::nullopt;
  uint64_t id = 0;
  const auto [end, error] =
      std::from_chars(info.data() + at + kKey.size(), info.data() + info.size(), id);
  return error == std::errc() ? std::optional(id) : std::nullopt;
}

// Each connection once. A process serves few, or those of all volumes of a node.
struct Connections {
  size_t count;
  std::array<uint64_t, 1000> ids;
};

// Reads the fdinfo of no other descriptor, because that of an epoll descriptor can block for ever.
void ReadConnections(std::string_view proc, pid_t pid, Connections& connections) {
  const int fdinfo = OpenProcessFolder(proc, pid, "fdinfo");
  if (fdinfo < 0) return;
  ForEachFuseDevice(proc, pid, [&](const char* fd) {
    const auto id = ReadConnection(fdinfo, fd);
    uint64_t* const end = connections.ids.data() + connections.count;
    if (id.has_value() && std::find(connections.ids.data(), end, *id) == end) {
      *end = *id;
      ++connections.count;
    }
    return connections.count < connections.ids.size();
  });
  close(fdinfo);
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
  const auto asked = AskOfProcesses<bool>(
      "look for FUSE servers", ListNumbers(proc), kWalkTime, [proc](pid_t pid, bool& holds) {
        ForEachFuseDevice(proc, pid, [&holds](const char* /*fd*/) {
          holds = true;
          return false;
        });
      });
  std::vector<pid_t> holders;
  for (const auto& [pid, holds] : asked.answers) {
    if (holds) holders.push_back(pid);
  }
  const auto read = AskOfProcesses<Connections>(
      "read what FUSE servers serve", holders, kWalkTime,
      [proc](pid_t pid, Connections& connections) { ReadConnections(proc, pid, connections); });
  FuseServers servers;
  for (const auto* answers : {&read.answers, &read.parts}) {
    for (const auto& [pid, connections] : *answers) {
      for (size_t i = 0; i < connections.count; ++i) {
        servers.known[connections.ids[i]].insert(pid);
      }
    }
  }
  // If the kernel names the connection of one process, it names those of all. So the other
  // processes have mounted nothing yet.
  if (servers.known.empty()) servers.possible.insert(holders.begin(), holders.end());
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
