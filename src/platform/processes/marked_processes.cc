#include "platform/processes/marked_processes.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/files/process_stat.h"
#include "base/files/whole_file.h"
#include "base/unique_fd.h"
#include "platform/processes/child.h"
#include "platform/processes/process_info.h"

namespace berth::platform {
namespace {

using Clock = std::chrono::steady_clock;

std::optional<pid_t> ReadLivingParent(pid_t pid) {
  const auto stat = base::ReadProcessStat(pid);
  if (!stat.has_value() || stat->state == 'Z' || stat->state == 'X') return std::nullopt;
  return stat->parent;
}

struct Found {
  pid_t pid;
  base::UniqueFd fd;  // holds exactly that process
};

std::vector<Found> FindMarkedProcesses(std::string_view variable) {
  std::map<pid_t, pid_t> processes;  // with their parents
  std::set<pid_t> marked;
  for (const pid_t pid : ListNumbers("/proc")) {
    if (pid == getpid()) continue;
    const std::optional<pid_t> parent = ReadLivingParent(pid);
    if (!parent.has_value()) continue;
    processes[pid] = *parent;
    if (IsMarked(pid, variable)) marked.insert(pid);
  }
  if (marked.empty()) return {};
  // A child that cleared its environment is recognised by its parent.
  for (bool grew = true; grew;) {
    grew = false;
    for (const auto& [pid, parent] : processes) {
      if (marked.contains(parent) && marked.insert(pid).second) grew = true;
    }
  }
  std::vector<Found> found;
  for (const pid_t pid : marked) {
    base::UniqueFd fd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
    if (!fd.valid()) continue;
    // Another process may have the number now, so the process that the descriptor holds is checked
    // again.
    const std::optional<pid_t> parent = ReadLivingParent(pid);
    if (!parent.has_value() || (*parent != processes[pid] && !IsMarked(pid, variable))) continue;
    found.push_back({pid, std::move(fd)});
  }
  return found;
}

void WaitForEnds(const std::vector<Found>& found, Clock::time_point deadline) {
  for (const Found& process : found) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    pollfd ended = {.fd = process.fd.get(), .events = POLLIN, .revents = 0};
    if (left.count() > 0) poll(&ended, 1, static_cast<int>(left.count()));
  }
}

}  // namespace

bool IsMarked(pid_t pid, std::string_view variable) {
  constexpr size_t kMost = 1 << 20;
  std::string environment;
  base::ReadWholeFile(fmt::format("/proc/{}/environ", pid), kMost, environment);
  for (size_t at = environment.find(variable); at != std::string::npos;
       at = environment.find(variable, at + 1)) {
    const size_t end = at + variable.size();
    const bool whole = end == environment.size() || environment[end] == '\0';
    if (whole && (at == 0 || environment[at - 1] == '\0')) return true;
  }
  return false;
}

size_t KillMarkedProcesses(std::string_view variable, std::chrono::milliseconds within) {
  const auto deadline = Clock::now() + within;
  for (;;) {
    const std::vector<Found> found = FindMarkedProcesses(variable);
    if (found.empty()) return 0;
    for (const Found& process : found) {
      syscall(SYS_pidfd_send_signal, process.fd.get(), SIGKILL, nullptr, 0);
    }
    WaitForEnds(found, deadline);
    if (Clock::now() >= deadline) return FindMarkedProcesses(variable).size();
  }
}

}  // namespace berth::platform
