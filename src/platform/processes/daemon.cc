#include "platform/processes/daemon.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "base/files/process_stat.h"
#include "base/log.h"
#include "platform/errno.h"
#include "platform/files/durable_file.h"
#include "platform/processes/child.h"
#include "platform/processes/own_folder.h"
#include "platform/processes/process_walk.h"

namespace berth::platform {
namespace {

using base::Error;
using base::StatusCode;

// Settings of glibc's malloc(3) for the daemon, which allocates up to a MiB for each request.
constexpr const char* kBufferSettings[] = {
    // Freed memory is kept. To get it from the kernel for each request costs more than the request,
    // because of page faults.
    "MALLOC_MMAP_THRESHOLD_=33554432",
    "MALLOC_TRIM_THRESHOLD_=67108864",
    // The heap consists of huge pages where the kernel has them, because direct I/O pins each page
    // of a buffer, and a disk gets one segment for each piece that is contiguous in memory. The
    // heap grows by at least 4 MiB, because smaller steps never fill a huge page at once.
    "GLIBC_TUNABLES=glibc.malloc.hugetlb=1",
    "MALLOC_TOP_PAD_=4194304",
};

std::string FindProgram(const std::string& name) {
  if (name.find('/') != std::string::npos) return name;
  if (std::string own = FindInOwnFolder(name); !own.empty()) return own;
  const char* path = std::getenv("PATH");
  std::string_view folders = path != nullptr ? path : "/usr/sbin:/usr/bin:/sbin:/bin";
  while (!folders.empty()) {
    const size_t colon = folders.find(':');
    const std::string candidate = fmt::format("{}/{}", folders.substr(0, colon), name);
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
    folders.remove_prefix(colon == std::string_view::npos ? folders.size() : colon + 1);
  }
  return {};
}

// A descriptor from which `text` and then its end are read.
base::StatusOr<base::UniqueFd> MakeInput(const std::string& text) {
  if (text.empty()) {
    base::UniqueFd nothing(open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (!nothing.valid()) return ErrnoError(errno, "open /dev/null");
    return nothing;
  }
  if (text.size() > kMostInput) {
    return Error(StatusCode::kInvalidArgument, "the input of a daemon has {} bytes, {} at most",
                 text.size(), kMostInput);
  }
  int ends[2];
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return ErrnoError(errno, "make a pipe");
  base::UniqueFd output(ends[0]);
  const base::UniqueFd filling(ends[1]);
  if (write(filling.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    return Error(StatusCode::kResourceExhausted, "the input of a daemon does not fit into a pipe");
  }
  fcntl(output.get(), F_SETFL, O_RDONLY);  // the daemon may wait for its input's end
  return output;
}

}  // namespace

base::StatusOr<DaemonId> StartDaemon(const DaemonOptions& options) {
  const std::string program = FindProgram(options.program);
  if (program.empty()) {
    return Error(StatusCode::kFailedPrecondition,
                 "{} is not installed: it is neither beside this program nor in PATH",
                 options.program);
  }
  std::vector<const char*> argv = {program.c_str()};
  for (const std::string& argument : options.arguments) argv.push_back(argument.c_str());
  argv.push_back(nullptr);
  ASSIGN_OR_RETURN(const base::UniqueFd input, MakeInput(options.input));
  std::vector<const char*> env = {"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C",
                                  options.mark.c_str()};
  env.insert(env.end(), std::begin(kBufferSettings), std::end(kBufferSettings));
  env.push_back(nullptr);
  const base::UniqueFd log(open(
      options.log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!log.valid()) {
    return ErrnoError(errno, "open the log " + base::Quote(options.log));
  }
  // The child writes the errno of what failed into this pipe. A successful execve closes it.
  int exec_error[2];
  if (pipe2(exec_error, O_CLOEXEC) != 0) return ErrnoError(errno, "make a pipe");
  const base::UniqueFd error_read(exec_error[0]);
  base::UniqueFd error_write(exec_error[1]);
  // The descriptors get high numbers, so that the dup2 calls below do not overwrite them.
  base::UniqueFd high(fcntl(error_write.get(), F_DUPFD_CLOEXEC, 16));
  const base::UniqueFd held(options.held < 0 ? -1 : fcntl(options.held, F_DUPFD_CLOEXEC, 16));
  const base::UniqueFd space(
      options.mount_namespace < 0 ? -1 : fcntl(options.mount_namespace, F_DUPFD_CLOEXEC, 16));
  const base::UniqueFd in(fcntl(input.get(), F_DUPFD_CLOEXEC, 16));
  const base::UniqueFd out(fcntl(log.get(), F_DUPFD_CLOEXEC, 16));
  if (!high.valid() || !in.valid() || !out.valid() || (options.held >= 0 && !held.valid()) ||
      (options.mount_namespace >= 0 && !space.valid())) {
    return ErrnoError(errno, "prepare the descriptors of " + base::Quote(program));
  }
  error_write.Reset();
  sigset_t none;
  sigemptyset(&none);
  const pid_t pid = fork();
  if (pid < 0) return ErrnoError(errno, "fork");
  if (pid == 0) {
    // Only async-signal-safe calls from here on.
    setsid();
    pthread_sigmask(SIG_SETMASK, &none, nullptr);
    signal(SIGPIPE, SIG_DFL);
    dup2(in.get(), 0);
    dup2(out.get(), 1);
    dup2(out.get(), 2);
    const bool keep = held.valid();
    if (keep) dup2(held.get(), kHeldFd);
    dup2(high.get(), 9);
    fcntl(9, F_SETFD, FD_CLOEXEC);
    const bool entered = !space.valid() || setns(space.get(), CLONE_NEWNS) == 0;
    const int enter_error = errno;
    syscall(SYS_close_range, keep ? kHeldFd + 1 : kHeldFd, 8U, 0U);
    syscall(SYS_close_range, 10U, ~0U, 0U);
    if (entered) execve(argv[0], const_cast<char**>(argv.data()), const_cast<char**>(env.data()));
    const int error = entered ? errno : enter_error;
    [[maybe_unused]] const ssize_t written = write(9, &error, sizeof error);
    _exit(127);
  }
  high.Reset();
  int error = 0;
  pollfd ready = {error_read.get(), POLLIN, 0};
  if (poll(&ready, 1, 10'000) > 0 && read(error_read.get(), &error, sizeof error) > 0) {
    ReapLater(pid);
    return ErrnoError(error, "start " + base::Quote(program));
  }
  const DaemonId id{.pid = pid, .start_time = base::ReadStartTicks(pid)};
  if (id.start_time == 0) {
    // Nobody could tell later whether a process with this pid is the daemon.
    kill(pid, SIGKILL);
    ReapLater(pid);
    return Error(StatusCode::kUnavailable, "read when process {} of {} started", pid,
                 base::Quote(program));
  }
  return id;
}

namespace {

bool HasEnded(const base::UniqueFd& process) {
  return WaitReadable(process.get(), std::chrono::steady_clock::now());
}

}  // namespace

base::StatusOr<base::UniqueFd> OpenDaemon(const DaemonId& id) {
  if (id.pid <= 0) return base::UniqueFd();
  base::UniqueFd process = OpenPid(id.pid);
  if (!process.valid()) {
    // EINVAL and ENOENT: no process has this number, but a thread or a session has it.
    if (errno == ESRCH || errno == EINVAL || errno == ENOENT) return base::UniqueFd();
    return ErrnoError(errno, fmt::format("look whether process {} runs", id.pid));
  }
  const auto stat = ReadForeignStat(id.pid);
  const bool is_another = stat.ok() && stat->start_ticks != id.start_time;
  return HasEnded(process) || is_another ? base::UniqueFd() : std::move(process);
}

void ReapDaemon(const DaemonId& id) {
  if (id.pid <= 0) return;
  const base::UniqueFd process = OpenPid(id.pid);
  if (!process.valid()) return;
  const auto stat = ReadForeignStat(id.pid);
  if (!stat.ok() || stat->start_ticks != id.start_time) return;
  // A pidfd names this process even if its pid is used again meanwhile.
  siginfo_t end = {};
  waitid(P_PIDFD, static_cast<id_t>(process.get()), &end, WEXITED | WNOHANG);
}

base::Status KillDaemon(const DaemonId& id, std::chrono::milliseconds within) {
  ASSIGN_OR_RETURN(const base::UniqueFd fd, OpenDaemon(id));
  if (!fd.valid()) {
    ReapDaemon(id);
    return base::OkStatus();
  }
  if (const auto stat = ReadForeignStat(id.pid); !stat.ok()) {
    if (HasEnded(fd)) return base::OkStatus();
    return Error(StatusCode::kDeadlineExceeded,
                 "it is not known whether process {} is the daemon: {}", id.pid,
                 base::Message(stat.status()));
  }
  if (syscall(SYS_pidfd_send_signal, fd.get(), SIGKILL, nullptr, 0) != 0 && errno != ESRCH) {
    return ErrnoError(errno, fmt::format("kill process {}", id.pid));
  }
  pollfd ended = {fd.get(), POLLIN, 0};
  if (poll(&ended, 1, static_cast<int>(within.count())) > 0) {
    ReapDaemon(id);
    return base::OkStatus();
  }
  return Error(StatusCode::kDeadlineExceeded,
               "daemon process {} was killed and does not end, because it waits in the kernel",
               id.pid);
}

}  // namespace berth::platform
