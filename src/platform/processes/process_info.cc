#include "platform/processes/process_info.h"

#include <dirent.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <map>

#include "base/files/process_stat.h"
#include "base/files/whole_file.h"
#include "base/text.h"
#include "base/unique_fd.h"
#include "platform/errno.h"

namespace berth::platform {
namespace {

using base::StatusCode;

constexpr size_t kMaxText = 64 * 1024;

std::string ReadLine(const std::string& path) {
  std::string text;
  base::ReadWholeFile(path, kMaxText, text);
  return text.substr(0, text.find('\n'));
}

std::chrono::seconds ReadUptime() {
  return std::chrono::seconds(static_cast<int64_t>(std::atof(ReadLine("/proc/uptime").c_str())));
}

std::string ReadWaitChannel(const std::string& folder) {
  const std::string channel = ReadLine(folder + "/wchan");
  if (!channel.empty() && channel != "0") return channel;
  // Where wchan is not built in, the stack shows it: "[<0>] fuse_get_req+0x1f2/0x2d0".
  const std::string top = ReadLine(folder + "/stack");
  const size_t name = top.find("] ");
  return name == std::string::npos ? "" : top.substr(name + 2, top.find('+') - name - 2);
}

}  // namespace

std::vector<int> ListNumbers(const std::string& folder) {
  std::vector<int> out;
  DIR* dir = opendir(folder.c_str());
  if (dir == nullptr) return out;
  while (const dirent* entry = readdir(dir)) {
    const std::string_view name = entry->d_name;
    int number = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
    if (error == std::errc() && end == name.data() + name.size()) out.push_back(number);
  }
  closedir(dir);
  return out;
}

base::StatusOr<ProcessInfo> ReadThread(pid_t tid) {
  const std::string folder = fmt::format("/proc/{}", tid);
  const auto stat = base::ReadProcessStat(tid);
  if (!stat.has_value()) {
    return base::Error(StatusCode::kNotFound, "there is no process {}", tid);
  }
  ProcessInfo info{.pid = tid,
                   .thread = true,
                   .parent = stat->parent,
                   .name = stat->name,
                   .state = stat->state,
                   .wait_channel = ReadWaitChannel(folder)};
  char program[4096];
  const ssize_t length = readlink((folder + "/exe").c_str(), program, sizeof(program));
  if (length > 0) {
    info.program = base::FileNameOf({program, static_cast<size_t>(length)});
  }
  const auto ticks = static_cast<uint64_t>(sysconf(_SC_CLK_TCK));
  info.age = std::max(std::chrono::seconds(0),
                      ReadUptime() - std::chrono::seconds(stat->start_ticks / ticks));
  return info;
}

base::StatusOr<ProcessInfo> ReadProcess(pid_t pid) {
  ASSIGN_OR_RETURN(ProcessInfo info, ReadThread(pid));
  info.thread = false;
  // A process hangs if one of its threads does.
  for (const pid_t tid : ListNumbers(fmt::format("/proc/{}/task", pid))) {
    if (info.in_kernel()) break;
    const auto thread = ReadThread(tid);
    if (!thread.ok() || !thread->in_kernel()) continue;
    info.state = thread->state;
    info.wait_channel = thread->wait_channel;
  }
  return info;
}

std::vector<ProcessInfo> ReadProcessTree(pid_t root) {
  std::multimap<pid_t, pid_t> children;
  for (const pid_t pid : ListNumbers("/proc")) {
    if (const auto stat = base::ReadProcessStat(pid)) children.emplace(stat->parent, pid);
  }
  std::vector<pid_t> pids = {root};
  for (size_t i = 0; i < pids.size(); ++i) {
    const auto [first, last] = children.equal_range(pids[i]);
    for (auto child = first; child != last; ++child) pids.push_back(child->second);
  }
  std::vector<ProcessInfo> tree;
  for (const pid_t pid : pids) {
    if (auto info = ReadProcess(pid); info.ok()) tree.push_back(*std::move(info));
  }
  return tree;
}

base::StatusOr<pid_t> FindSocketOwner(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return base::Error(StatusCode::kInvalidArgument, "socket path '{}' is too long", path);
  }
  path.copy(address.sun_path, path.size());
  const base::UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return ErrnoError(errno, "make a socket");
  // The kernel accepts the connection, whether the listener runs or not.
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    if (errno == ECONNREFUSED || errno == ENOENT) {
      return base::Error(StatusCode::kUnavailable, "nobody listens on '{}'", path);
    }
    return ErrnoError(errno, fmt::format("connect to '{}'", path));
  }
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
    return ErrnoError(errno, fmt::format("ask who listens on '{}'", path));
  }
  return peer.pid;
}

}  // namespace berth::platform
