#include "platform/processes/process_info.h"

#include <dirent.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <map>
#include <memory>
#include <span>
#include <sstream>
#include <string_view>

#include "base/files/process_stat.h"
#include "base/files/whole_file.h"
#include "base/text.h"
#include "base/unique_fd.h"
#include "platform/errno.h"
#include "platform/processes/process_walk.h"

namespace berth::platform {
namespace {

using base::StatusCode;

constexpr size_t kMaxText = 64 * 1024;
constexpr std::chrono::seconds kDetailTime(10);

std::string ReadLine(const std::string& path) {
  std::string text;
  base::ReadWholeFile(path, kMaxText, text);
  return text.substr(0, text.find('\n'));
}

std::chrono::seconds ReadUptime() {
  return std::chrono::seconds(static_cast<int64_t>(std::atof(ReadLine("/proc/uptime").c_str())));
}

// What a child reads of a thread, in the order in which it is asked for.
struct Details {
  std::array<char, 4096> stat;
  size_t stat_size;
  std::array<char, 4096> program;
  size_t program_size;
  std::array<char, 128> channel;
  size_t channel_size;
  std::array<char, 256> stack;  // the beginning
  size_t stack_size;
};

void ReadDetails(pid_t tid, Details& details) {
  const auto read = [tid](const char* name, std::span<char> text) {
    return ReadProcessFile({"/proc", tid, name}, text);
  };
  details.stat_size = read("stat", details.stat);
  details.program_size = ReadProcessLink({"/proc", tid, "exe"}, details.program);
  details.channel_size = read("wchan", details.channel);
  details.stack_size = read("stack", details.stack);
}

std::string_view FirstLine(std::span<const char> text, size_t size) {
  const std::string_view all(text.data(), size);
  return all.substr(0, all.find('\n'));
}

std::string_view GetWaitChannel(const Details& details) {
  const std::string_view channel = FirstLine(details.channel, details.channel_size);
  if (!channel.empty() && channel != "0") return channel;
  // Where wchan is not built in, the stack shows it: "[<0>] fuse_get_req+0x1f2/0x2d0".
  const std::string_view top = FirstLine(details.stack, details.stack_size);
  const size_t name = top.find("] ");
  return name == std::string_view::npos ? "" : top.substr(name + 2, top.find('+') - name - 2);
}

// The threads that exist, by their ids.
std::map<pid_t, ProcessInfo> ReadThreads(const std::vector<pid_t>& tids) {
  const auto asked = AskOfProcesses<Details>("describe processes", tids, kDetailTime, &ReadDetails);
  const auto ticks = static_cast<uint64_t>(sysconf(_SC_CLK_TCK));
  const std::chrono::seconds uptime = ReadUptime();
  std::map<pid_t, ProcessInfo> threads;
  for (const pid_t tid : tids) {
    const auto status = base::ReadProcessStatus(tid);
    if (!status.has_value()) continue;
    ProcessInfo& info = threads[tid];
    info = {.pid = tid,
            .thread = true,
            .parent = status->parent,
            .name = status->name,
            .state = status->state};
    const auto found = asked.answers.find(tid);
    info.unreadable = found == asked.answers.end();
    if (info.unreadable) continue;
    const Details& details = found->second;
    info.wait_channel = GetWaitChannel(details);
    info.program = base::FileNameOf({details.program.data(), details.program_size});
    const auto stat = base::ParseProcessStat({details.stat.data(), details.stat_size});
    if (!stat.has_value()) continue;
    info.age =
        std::max(std::chrono::seconds(0), uptime - std::chrono::seconds(stat->start_ticks / ticks));
  }
  return threads;
}

// The processes that exist, in the given order.
std::vector<ProcessInfo> ReadProcesses(const std::vector<pid_t>& pids) {
  std::vector<pid_t> all;
  std::map<pid_t, std::vector<pid_t>> tasks;
  for (const pid_t pid : pids) {
    all.push_back(pid);
    tasks[pid] = ListNumbers(fmt::format("/proc/{}/task", pid));
    for (const pid_t tid : tasks[pid]) {
      if (tid != pid) all.push_back(tid);
    }
  }
  const std::map<pid_t, ProcessInfo> threads = ReadThreads(all);
  std::vector<ProcessInfo> processes;
  for (const pid_t pid : pids) {
    const auto own = threads.find(pid);
    if (own == threads.end()) continue;
    ProcessInfo info = own->second;
    info.thread = false;
    // A process hangs if one of its threads does.
    for (const pid_t tid : tasks[pid]) {
      if (info.in_kernel()) break;
      const auto thread = threads.find(tid);
      if (thread == threads.end() || !thread->second.in_kernel()) continue;
      info.state = thread->second.state;
      info.wait_channel = thread->second.wait_channel;
    }
    processes.push_back(std::move(info));
  }
  return processes;
}

// The inodes of the sockets that listen at `path`, by the kernel's list (proc(5), /proc/net/unix:
// Num RefCount Protocol Flags Type St Inode Path).
std::vector<std::string> FindListeningInodes(const std::string& path) {
  constexpr std::string_view kListening = "00010000";  // __SO_ACCEPTCON
  std::vector<std::string> inodes;
  std::ifstream list("/proc/net/unix");
  for (std::string line; std::getline(list, line);) {
    std::istringstream words(line);
    std::string number, references, protocol, flags, type, state, inode, at;
    words >> number >> references >> protocol >> flags >> type >> state >> inode >> std::ws;
    std::getline(words, at);
    if (flags == kListening && at == path) inodes.push_back(inode);
  }
  return inodes;
}

// Whether one of the process's descriptors leads to `target`. For children.
bool HoldsDescriptor(pid_t pid, const std::vector<int>& descriptors, std::string_view target) {
  return std::ranges::any_of(descriptors, [&](int descriptor) {
    std::array<char, 16> name{'f', 'd', '/'};
    const auto end = std::to_chars(name.data() + 3, name.data() + name.size(), descriptor).ptr;
    std::array<char, 64> link{};
    const std::string_view path(name.data(), static_cast<size_t>(end - name.data()));
    const size_t size = ReadProcessLink({"/proc", pid, path}, link);
    return std::string_view(link.data(), size) == target;
  });
}

// The process that has the socket which listens at `path`, without a connection to it. Its children
// may have inherited the socket.
base::StatusOr<pid_t> FindListener(const std::string& path) {
  const std::vector<std::string> inodes = FindListeningInodes(path);
  if (inodes.size() != 1) {
    return base::Error(StatusCode::kResourceExhausted,
                       "the queue of '{}' is full, and {} sockets listen there", path,
                       inodes.size());
  }
  const std::string target = fmt::format("socket:[{}]", inodes.front());
  const std::vector<pid_t> pids = ListNumbers("/proc");
  auto descriptors = std::make_shared<std::map<pid_t, std::vector<int>>>();
  for (const pid_t pid : pids) {
    (*descriptors)[pid] = ListNumbers(fmt::format("/proc/{}/fd", pid));
  }
  const auto asked =
      AskOfProcesses<bool>("look for who listens at a socket", pids, kDetailTime,
                           [descriptors, target](pid_t pid, bool& holds) {
                             holds = HoldsDescriptor(pid, descriptors->find(pid)->second, target);
                           });
  const auto holds = [&asked](pid_t pid) {
    const auto found = asked.answers.find(pid);
    return found != asked.answers.end() && found->second;
  };
  for (const pid_t pid : pids) {
    if (!holds(pid)) continue;
    const auto status = base::ReadProcessStatus(pid);
    if (status.has_value() && !holds(status->parent)) return pid;
  }
  return base::Error(StatusCode::kResourceExhausted,
                     "the queue of '{}' is full, and no process is seen that has the socket", path);
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
  std::map<pid_t, ProcessInfo> threads = ReadThreads({tid});
  if (threads.empty()) {
    return base::Error(StatusCode::kNotFound, "there is no thread {}", tid);
  }
  return std::move(threads.begin()->second);
}

base::StatusOr<ProcessInfo> ReadProcess(pid_t pid) {
  std::vector<ProcessInfo> processes = ReadProcesses({pid});
  if (processes.empty()) {
    return base::Error(StatusCode::kNotFound, "there is no process {}", pid);
  }
  return std::move(processes.front());
}

std::vector<ProcessInfo> ReadProcessTree(pid_t root) {
  std::multimap<pid_t, pid_t> children;
  for (const pid_t pid : ListNumbers("/proc")) {
    if (const auto status = base::ReadProcessStatus(pid)) children.emplace(status->parent, pid);
  }
  std::vector<pid_t> pids = {root};
  for (size_t i = 0; i < pids.size(); ++i) {
    const auto [first, last] = children.equal_range(pids[i]);
    for (auto child = first; child != last; ++child) pids.push_back(child->second);
  }
  return ReadProcesses(pids);
}

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

std::string ReadContainerId(pid_t pid) {
  std::string groups;
  base::ReadWholeFile(fmt::format("/proc/{}/cgroup", pid), kMaxText, groups);
  std::istringstream lines(groups);
  for (std::string line; std::getline(lines, line);) {
    if (std::string id = FindContainerId(line); !id.empty()) return id;
  }
  return "";
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
    // Nobody has taken the connections of the earlier callers, as if the process were stopped.
    if (errno == EAGAIN) return FindListener(path);
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
