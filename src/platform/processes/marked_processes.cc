#include "platform/processes/marked_processes.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/files/process_stat.h"
#include "base/files/whole_file.h"
#include "base/unique_fd.h"
#include "platform/processes/child.h"
#include "platform/processes/process_info.h"
#include "platform/processes/process_walk.h"

namespace berth::platform {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kWalkTime(10);
// Of a killed process that does not wait in the kernel.
constexpr std::chrono::milliseconds kEndTime(200);

struct Found {
  pid_t pid;
  base::UniqueFd fd;  // holds exactly that process
};

struct Marked {
  std::vector<Found> found;
  // Those that were marked a moment before, and then lost their parent and cannot be read: another
  // process may have the number.
  std::vector<Found> doubtful;
  // The processes of the container that keep everybody from reading them.
  std::set<pid_t> unreadable;
};

bool Lives(const base::ProcessStatus& status) { return status.state != 'Z' && status.state != 'X'; }

// Whether a line of /proc/PID/cgroup names the container: its id stands between other characters,
// as in /kubepods/pod<uid>/<id> and cri-containerd-<id>.scope.
bool IsInContainer(pid_t pid, std::string_view container) {
  constexpr size_t kMost = 64 * 1024;
  std::string groups;
  base::ReadWholeFile(fmt::format("/proc/{}/cgroup", pid), kMost, groups);
  const auto is_part = [&groups](size_t at) {
    return at < groups.size() && std::isalnum(static_cast<unsigned char>(groups[at])) != 0;
  };
  for (size_t at = groups.find(container); at != std::string::npos;
       at = groups.find(container, at + 1)) {
    if (!is_part(at - 1) && !is_part(at + container.size())) return true;
  }
  return false;
}

// The living processes of the container, or all if it is "", with their parents.
std::map<pid_t, pid_t> ListProcesses(std::string_view container) {
  std::map<pid_t, pid_t> processes;
  for (const pid_t pid : ListNumbers("/proc")) {
    if (pid == getpid()) continue;
    const auto status = base::ReadProcessStatus(pid);
    if (!status.has_value() || !Lives(*status)) continue;
    if (container.empty() || IsInContainer(pid, container)) processes[pid] = status->parent;
  }
  return processes;
}

// Searches a process's environment in pieces, as a child has to. Every part of `variable` and the
// zero bytes around it are compared, whatever piece they are in.
bool HasVariable(pid_t pid, std::string_view variable) {
  constexpr size_t kMost = 1 << 20;
  const int fd = open(ProcessPath("/proc", pid, "environ").c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  std::array<char, 16 * 1024> piece;
  size_t matched = 0;    // bytes of `variable`, in the word at hand
  bool possible = true;  // all bytes of the word at hand were those of `variable`
  bool found = false;
  for (size_t total = 0; total < kMost && !found;) {
    const ssize_t size = read(fd, piece.data(), piece.size());
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) break;
    total += static_cast<size_t>(size);
    for (ssize_t i = 0; i < size && !found; ++i) {
      const char c = piece[static_cast<size_t>(i)];
      if (c == '\0') {
        found = possible && matched == variable.size();
        matched = 0;
        possible = true;
      } else {
        possible = possible && matched < variable.size() && c == variable[matched];
        ++matched;
      }
    }
  }
  close(fd);
  return found || (possible && matched == variable.size());
}

ProcessAnswers<bool> AskForVariable(const std::vector<pid_t>& pids, std::string_view variable) {
  return AskOfProcesses<bool>("look for the processes of a run", pids, kWalkTime,
                              [variable = std::string(variable)](pid_t pid, bool& has) {
                                has = HasVariable(pid, variable);
                              });
}

Marked FindMarkedProcesses(std::string_view variable, std::string_view container) {
  const std::map<pid_t, pid_t> processes = ListProcesses(container);
  std::vector<pid_t> pids;
  for (const auto& [pid, parent] : processes) pids.push_back(pid);
  const ProcessAnswers<bool> asked = AskForVariable(pids, variable);
  std::set<pid_t> marked;
  for (const auto& [pid, has] : asked.answers) {
    if (has) marked.insert(pid);
  }
  // A child that cleared its environment is recognised by its parent.
  for (bool grew = !marked.empty(); grew;) {
    grew = false;
    for (const auto& [pid, parent] : processes) {
      if (marked.contains(parent) && marked.insert(pid).second) grew = true;
    }
  }
  Marked out;
  if (!container.empty()) {
    for (const pid_t pid : asked.stuck) {
      if (!marked.contains(pid)) out.unreadable.insert(pid);
    }
  }
  // Another process may have the number now, so the processes that the descriptors hold are checked
  // again.
  std::vector<Found> orphans;
  std::vector<pid_t> questions;
  for (const pid_t pid : marked) {
    base::UniqueFd fd = OpenPid(pid);
    const auto status = base::ReadProcessStatus(pid);
    if (!fd.valid() || !status.has_value() || !Lives(*status)) continue;
    const bool orphaned = status->parent != processes.at(pid);
    if (orphaned) questions.push_back(pid);
    (orphaned ? orphans : out.found).push_back({pid, std::move(fd)});
  }
  const ProcessAnswers<bool> again = AskForVariable(questions, variable);
  for (Found& orphan : orphans) {
    const auto answer = again.answers.find(orphan.pid);
    if (answer == again.answers.end()) {
      out.doubtful.push_back(std::move(orphan));
    } else if (answer->second) {
      out.found.push_back(std::move(orphan));
    }
  }
  return out;
}

bool HasEnded(const Found& process) { return WaitReadable(process.fd.get(), Clock::now()); }

void WaitForEnds(const std::map<pid_t, Found>& processes, Clock::time_point deadline) {
  for (const auto& [pid, process] : processes) WaitReadable(process.fd.get(), deadline);
}

}  // namespace

std::vector<pid_t> ListMarkedProcesses(std::string_view variable) {
  std::vector<pid_t> pids;
  for (const pid_t pid : ListNumbers("/proc")) pids.push_back(pid);
  std::vector<pid_t> marked;
  for (const auto& [pid, has] : AskForVariable(pids, variable).answers) {
    if (has) marked.push_back(pid);
  }
  return marked;
}

size_t KillMarkedProcesses(std::string_view variable, std::chrono::milliseconds within,
                           std::string_view container) {
  const auto deadline = Clock::now() + within;
  // A runtime may name its cgroups in another way.
  if (!container.empty() && ListProcesses(container).empty()) container = {};
  // A process that was found stays known until it ends: when its parent has ended and it cannot be
  // read, nothing shows any more that it was marked.
  std::map<pid_t, Found> known;
  for (bool last = false;; last = Clock::now() >= deadline) {
    Marked marked = FindMarkedProcesses(variable, container);
    std::erase_if(known, [](const auto& each) { return HasEnded(each.second); });
    for (const Found& process : marked.found) {
      syscall(SYS_pidfd_send_signal, process.fd.get(), SIGKILL, nullptr, 0);
    }
    for (auto* list : {&marked.found, &marked.doubtful}) {
      for (Found& process : *list) known.insert_or_assign(process.pid, std::move(process));
    }
    if (last || known.empty()) {
      for (const auto& [pid, process] : known) marked.unreadable.insert(pid);
      return marked.unreadable.size();
    }
    // The search may have taken all the time.
    WaitForEnds(known, std::max(deadline, Clock::now() + kEndTime));
  }
}

}  // namespace berth::platform
