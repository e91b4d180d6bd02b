#include "platform/processes/marked_processes.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "platform/processes/child.h"
#include "platform/processes/process_info.h"

namespace berth::platform {
namespace {

using Clock = std::chrono::steady_clock;

std::string ReadProc(pid_t pid, std::string_view name) {
  constexpr size_t kMost = 1 << 20;
  const base::UniqueFd fd(
      open(fmt::format("/proc/{}/{}", pid, name).c_str(), O_RDONLY | O_CLOEXEC));
  std::string text;
  std::array<char, 16384> buffer;
  while (fd.valid() && text.size() < kMost) {
    const ssize_t n = read(fd.get(), buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    text.append(buffer.data(), static_cast<size_t>(n));
  }
  return text;
}

// Looks at the environment that a process began with; a zombie's is empty.
bool IsMarked(pid_t pid, std::string_view variable) {
  const std::string environment = ReadProc(pid, "environ");
  for (size_t at = environment.find(variable); at != std::string::npos;
       at = environment.find(variable, at + 1)) {
    const size_t end = at + variable.size();
    const bool whole = end == environment.size() || environment[end] == '\0';
    if (whole && (at == 0 || environment[at - 1] == '\0')) return true;
  }
  return false;
}

// Parent and state from /proc/PID/stat. The name in it may hold any character, even ')'.
struct Stat {
  pid_t parent = 0;
  char state = 'Z';
};
Stat ReadStat(pid_t pid) {
  const std::string text = ReadProc(pid, "stat");
  const size_t end = text.rfind(')');
  Stat stat;
  if (end == std::string::npos || end + 4 >= text.size()) return stat;
  stat.state = text[end + 2];
  std::from_chars(text.data() + end + 4, text.data() + text.size(), stat.parent);
  return stat;
}

struct Found {
  pid_t pid;
  base::UniqueFd fd;  // holds exactly that process
};

std::vector<Found> FindAlive(std::string_view variable) {
  std::map<pid_t, Stat> processes;
  std::set<pid_t> marked;
  for (const pid_t pid : NumbersIn("/proc")) {
    if (pid == getpid()) continue;
    const Stat stat = ReadStat(pid);
    if (stat.state == 'Z' || stat.state == 'X') continue;
    processes[pid] = stat;
    if (IsMarked(pid, variable)) marked.insert(pid);
  }
  if (marked.empty()) return {};
  // A child that cleared its environment is recognised by its parent.
  for (bool grew = true; grew;) {
    grew = false;
    for (const auto& [pid, stat] : processes) {
      if (marked.contains(stat.parent) && marked.insert(pid).second) grew = true;
    }
  }
  std::vector<Found> found;
  for (const pid_t pid : marked) {
    base::UniqueFd fd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
    if (!fd.valid()) continue;
    // Another process may have the number now, so the process that the descriptor holds is checked
    // again.
    const Stat now = ReadStat(pid);
    if (now.state == 'Z' || (now.parent != processes[pid].parent && !IsMarked(pid, variable))) {
      continue;
    }
    found.push_back({pid, std::move(fd)});
  }
  return found;
}

void WaitForEnd(const std::vector<Found>& found, Clock::time_point deadline) {
  for (const Found& process : found) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    pollfd ended = {.fd = process.fd.get(), .events = POLLIN, .revents = 0};
    if (left.count() > 0) poll(&ended, 1, static_cast<int>(left.count()));
  }
}

}  // namespace

size_t KillMarked(std::string_view variable, std::chrono::milliseconds within) {
  const auto deadline = Clock::now() + within;
  for (;;) {
    const std::vector<Found> found = FindAlive(variable);
    if (found.empty()) return 0;
    for (const Found& process : found) {
      syscall(SYS_pidfd_send_signal, process.fd.get(), SIGKILL, nullptr, 0);
    }
    WaitForEnd(found, deadline);
    if (Clock::now() >= deadline) return FindAlive(variable).size();
  }
}

}  // namespace berth::platform
