#include "platform/child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "base/flight.h"
#include "base/mutex.h"
#include "platform/errno.h"

namespace berth::platform {
namespace {

using Deadline = std::chrono::steady_clock::time_point;

struct Inode {
  int fd;
  dev_t dev;
  ino_t ino;
};

// What children of this process need to know whoever started them: process-wide, as children are.
struct Children {
  base::Mutex mutex;
  std::vector<Inode> unshared ABSL_GUARDED_BY(mutex);
  std::vector<pid_t> dying ABSL_GUARDED_BY(mutex);
};

Children& Global() {
  // Never destroyed: children may be started until the very end of the process.
  static Children& children = *new Children;
  return children;
}

bool StillThat(const Inode& inode) {
  struct stat st;
  return fstat(inode.fd, &st) == 0 && st.st_dev == inode.dev && st.st_ino == inode.ino;
}

// Reaps the dying that are dead, and gives the descriptors to close in a child.
std::vector<Inode> Prepare() {
  Children& global = Global();
  base::MutexLock lock(global.mutex);
  std::erase_if(global.dying, [](pid_t pid) { return waitpid(pid, nullptr, WNOHANG) != 0; });
  std::erase_if(global.unshared, [](const Inode& inode) { return !StillThat(inode); });
  return global.unshared;
}

int MillisecondsLeft(Deadline deadline) {
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  return static_cast<int>(std::clamp<int64_t>(left.count(), 0, 1 << 30));
}

// False if `deadline` passed first.
bool WaitReadable(int fd, Deadline deadline) {
  for (;;) {
    pollfd poll_fd = {.fd = fd, .events = POLLIN, .revents = 0};
    const int n = poll(&poll_fd, 1, MillisecondsLeft(deadline));
    if (n > 0) return true;
    if (n < 0 && errno == EINTR) continue;
    return false;
  }
}

bool WriteAll(int fd, const void* data, size_t size) {
  const char* at = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t n = write(fd, at, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += n;
    size -= static_cast<size_t>(n);
  }
  return true;
}

// The bytes that came before end of file or `deadline`.
size_t ReadUntil(int fd, void* data, size_t size, Deadline deadline) {
  char* at = static_cast<char*>(data);
  size_t done = 0;
  while (done < size && WaitReadable(fd, deadline)) {
    const ssize_t n = read(fd, at + done, size - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    done += static_cast<size_t>(n);
  }
  return done;
}

[[noreturn]] void ChildMain(int out, const std::vector<Inode>& unshared, const void* reply,
                            size_t reply_size, const std::function<int()>& body) {
  for (const Inode& inode : unshared) {
    if (StillThat(inode)) close(inode.fd);
  }
  const int result = body();
  bool sent = WriteAll(out, &result, sizeof(result));
  if (sent && result == 0 && reply_size > 0) sent = WriteAll(out, reply, reply_size);
  _exit(sent ? 0 : 1);
}

// Waits for the end of a child whose answer is in, or leaves it to a later call.
void Reap(pid_t pid, const base::UniqueFd& pidfd, Deadline deadline) {
  if (pidfd.valid() && !WaitReadable(pidfd.get(), deadline)) return ReapLater(pid);
  while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
}

base::Status RunChild(std::string_view what, std::chrono::milliseconds timeout, void* reply,
                      size_t reply_size, const std::function<int()>& body, base::FlightSpan& span);

}  // namespace

void CloseInChildren(int fd) {
  struct stat st;
  if (fstat(fd, &st) != 0) return;
  Children& global = Global();
  base::MutexLock lock(global.mutex);
  std::erase_if(global.unshared, [](const Inode& inode) { return !StillThat(inode); });
  global.unshared.push_back({fd, st.st_dev, st.st_ino});
}

base::UniqueFd OpenPid(pid_t pid) {
  // By number: the header of glibc 2.36 declares the call without C linkage.
  return base::UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
}

void ReapLater(pid_t pid) {
  Children& global = Global();
  base::MutexLock lock(global.mutex);
  global.dying.push_back(pid);
}

base::Status RunInChild(std::string_view what, std::chrono::milliseconds timeout,
                        const std::function<int()>& body) {
  return RunInChild(what, timeout, nullptr, 0, body);
}

base::Status RunInChild(std::string_view what, std::chrono::milliseconds timeout, void* reply,
                        size_t reply_size, const std::function<int()>& body) {
  base::FlightSpan span(base::FlightKind::kProcess, "berth", what);
  const base::Status status = RunChild(what, timeout, reply, reply_size, body, span);
  span.End(status);
  return status;
}

namespace {

base::Status RunChild(std::string_view what, std::chrono::milliseconds timeout, void* reply,
                      size_t reply_size, const std::function<int()>& body, base::FlightSpan& span) {
  const Deadline deadline = std::chrono::steady_clock::now() + timeout;
  const std::vector<Inode> unshared = Prepare();
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return ErrnoError(errno, fmt::format("{}: pipe", what));
  base::UniqueFd in(ends[0]), out(ends[1]);

  // Signals stay blocked in the child: a handler of this process has no business there.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  // _Fork runs no atfork handlers, which may take locks that another thread holds.
  const pid_t pid = _Fork();
  if (pid == 0) ChildMain(out.get(), unshared, reply, reply_size, body);
  const int fork_error = errno;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (pid < 0) return ErrnoError(fork_error, fmt::format("{}: fork", what));
  out.Reset();
  span.SetPid(pid);
  const base::UniqueFd pidfd = OpenPid(pid);

  int result = 0;
  std::vector<char> bytes(reply_size);
  const bool answered = ReadUntil(in.get(), &result, sizeof(result), deadline) == sizeof(result);
  const bool complete = answered && (result != 0 || ReadUntil(in.get(), bytes.data(), reply_size,
                                                              deadline) == reply_size);
  if (!complete) {
    kill(pid, SIGKILL);
    const bool late = std::chrono::steady_clock::now() >= deadline;
    Reap(pid, pidfd, std::chrono::steady_clock::now() + std::chrono::milliseconds(100));
    if (!late) return base::Error(base::StatusCode::kInternal, "{}: the child process died", what);
    return base::Error(base::StatusCode::kDeadlineExceeded, "{}: no answer within {} ms", what,
                       timeout.count());
  }
  // The exit itself can block: closing a descriptor flushes, and a dead FUSE server never answers.
  Reap(pid, pidfd, deadline);
  if (result != 0) return ErrnoError(result, what);
  std::copy(bytes.begin(), bytes.end(), static_cast<char*>(reply));
  return base::OkStatus();
}

}  // namespace

}  // namespace berth::platform
