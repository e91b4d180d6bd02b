#include "cmd/berth-init/init.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "cmd/berth-init/child.h"
#include "cmd/berth-init/files.h"
#include "cmd/berth-init/fuse_holders.h"
#include "cmd/berth-init/log_line.h"
#include "cmd/berth-init/registration.h"

namespace berth::init {

using base::ipc::Failure;
using base::ipc::Result;
using base::ipc::SystemFailure;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

constexpr const char* kOwnTable = "/proc/self/mountinfo";
// How often mounts and utilities in use are checked without an event, because some changes cause
// none: a daemon may close /dev/fuse, and a kernel may not report changes of mount tables.
constexpr milliseconds kResync{5000};
constexpr milliseconds kForEver{-1};
// How long the remaining processes have to end after SIGTERM.
constexpr milliseconds kLastGrace{5000};

constexpr int kLeaveSignals[] = {SIGTERM, SIGINT, SIGQUIT};
constexpr int kPassedSignals[] = {SIGHUP, SIGUSR1, SIGUSR2, SIGWINCH};

std::string FormatSeconds(seconds time) { return std::to_string(time.count()) + " s"; }

Result<std::vector<Mount>> ReadMountTable(const std::string& path) {
  const auto text = ReadWhole(path);
  if (!text.ok()) return text.failure();
  return ParseMounts(*text);
}

}  // namespace

int Init::Run() {
  if (Failure failure = SetUp(); !failure.ok()) {
    LogLine(failure.text);
    return 1;
  }
  ServeUntilLeaving();
  StayWhileUsed();
  EndProcesses();
  return exit_code_;
}

Failure Init::SetUp() {
  sigset_t taken;
  sigemptyset(&taken);
  sigaddset(&taken, SIGCHLD);
  for (const int signal : kLeaveSignals) sigaddset(&taken, signal);
  for (const int signal : kPassedSignals) sigaddset(&taken, signal);
  sigprocmask(SIG_BLOCK, &taken, &outer_signals_);
  signals_.Reset(signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals_.valid()) return SystemFailure("take signals", errno);

  host_table_.Reset(open(options_.host_mounts.c_str(), O_RDONLY | O_CLOEXEC));
  const auto host = ReadWhole(options_.host_mounts);
  if (!host_table_.valid() || !host.ok()) {
    return {base::ipc::Problem::kSystem,
            "the host's mount table, which shows what is in use, cannot be read: " +
                host.failure().text + ": mount the host's /proc at /host/proc"};
  }
  own_table_.Reset(open(kOwnTable, O_RDONLY | O_CLOEXEC));
  earlier_ = ParseMounts(*host);

  // The command is started before the registration, so that there is no registration if the command
  // cannot be run.
  if (!options_.command.empty()) {
    auto child = StartChild(options_.command);
    if (!child.ok()) return child.failure();
    child_ = *child;
  }
  return RegisterPod(options_);
}

void Init::ServeUntilLeaving() {
  while (!leaving_) WaitForEvents(kForEver);
}

void Init::StayWhileUsed() {
  WithdrawRegistration(options_);
  const Clock::time_point began = Clock::now();
  std::vector<std::string> logged;
  while (true) {
    const std::vector<std::string> used = ListUses();
    if (used.empty()) return;
    if (used != logged) {
      LogLine("stays, because these are in use (" + std::to_string(used.size()) + "):");
      for (const std::string& line : used) LogLine("  " + line);
      logged = used;
    }
    milliseconds limit = kResync;
    if (options_.grace.count() > 0) {
      const auto rest = std::chrono::ceil<milliseconds>(began + options_.grace - Clock::now());
      if (rest.count() <= 0) {
        LogLine("ends although these are in use, because --grace is " +
                FormatSeconds(options_.grace));
        return;
      }
      limit = std::min(limit, rest);
    }
    WaitForEvents(limit);
  }
}

void Init::EndProcesses() {
  utilities_.clear();
  if (child_) {
    kill(*child_, SIGTERM);
    while (child_) WaitForEvents(kForEver);
  }
  // Signals all processes of this PID namespace except this one. main() has checked that this is
  // process 1.
  kill(-1, SIGTERM);
  const Clock::time_point end = Clock::now() + kLastGrace;
  while (!no_children_ && Clock::now() < end) {
    WaitForEvents(std::chrono::ceil<milliseconds>(end - Clock::now()));
  }
  LogLine("ends");
}

void Init::WaitForEvents(milliseconds limit) {
  std::vector<pollfd> entries = {{.fd = signals_.get(), .events = POLLIN},
                                 {.fd = host_table_.get(), .events = POLLPRI},
                                 {.fd = own_table_.get(), .events = POLLPRI}};
  for (const base::UniqueFd& utility : utilities_) {
    entries.push_back({.fd = utility.get(), .events = POLLIN});
  }
  if (poll(entries.data(), entries.size(), static_cast<int>(limit.count())) <= 0) {
    ReapChildren();
    return;
  }
  if (entries[0].revents != 0) ReadSignals();
  if (entries[1].revents != 0) ForgetGoneMounts();
}

void Init::ReadSignals() {
  signalfd_siginfo info{};
  while (read(signals_.get(), &info, sizeof(info)) == sizeof(info)) {
    const int signal = static_cast<int>(info.ssi_signo);
    if (signal == SIGCHLD) continue;
    if (std::find(std::begin(kLeaveSignals), std::end(kLeaveSignals), signal) !=
        std::end(kLeaveSignals)) {
      if (!leaving_) {
        LogLine("received signal " + std::to_string(signal) + ", and ends when nothing is in use");
      }
      leaving_ = true;
    } else if (child_) {
      kill(*child_, signal);
    }
  }
  ReapChildren();
}

void Init::ReapChildren() {
  int status = 0;
  pid_t pid = 0;
  while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
    if (pid != child_) continue;
    child_.reset();
    exit_code_ = ToExitCode(status);
    LogLine("the command '" + options_.command.front() + "' ended with " +
            std::to_string(exit_code_));
    leaving_ = true;
  }
  no_children_ = pid < 0 && errno == ECHILD;
  ReapReaders();  // waitpid(-1) does not see them, because they have no exit signal
}

// Forgets earlier mounts that are gone, because a new mount may get the device number of such a
// mount.
void Init::ForgetGoneMounts() {
  const auto host = ReadMountTable(options_.host_mounts);
  if (!host.ok()) return;
  std::erase_if(earlier_, [&](const Mount& mount) {
    return std::find(host->begin(), host->end(), mount) == host->end();
  });
}

std::vector<std::string> Init::ListUses() {
  const auto host = ReadMountTable(options_.host_mounts);
  const auto own = ReadMountTable(kOwnTable);
  for (const auto* table : {&host, &own}) {
    if (!table->ok()) {
      return {"perhaps any mount, because a mount table cannot be read: " + table->failure().text};
    }
  }
  const Processes processes = FindProcesses();
  std::vector<std::string> used;
  for (const Mount& mount : FindServedMounts(processes.servers, *host, *own, earlier_)) {
    used.push_back("the file system mounted at '" + mount.mount_point + "' (device " +
                   mount.device + ")");
  }
  utilities_.clear();
  for (const Utility& utility : processes.utilities) {
    base::UniqueFd fd(static_cast<int>(syscall(SYS_pidfd_open, utility.pid, 0)));
    if (fd.valid()) utilities_.push_back(std::move(fd));
    used.push_back("the utility " + utility.name + " (pid " + std::to_string(utility.pid) + ")");
  }
  return used;
}

}  // namespace berth::init
