#include "platform/processes/child.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <vector>

#include "base/files/whole_file.h"
#include "base/flight.h"
#include "base/mutex.h"
#include "platform/errno.h"

namespace berth::platform {
namespace {

using Deadline = std::chrono::steady_clock::time_point;

// A sanitizer's run time keeps data about each thread that two processes must not share.
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr bool kSharesMemory = false;
#else
constexpr bool kSharesMemory = true;
#endif

struct Dying {
  pid_t pid;
  std::shared_ptr<void> kept;
};

// The stack of a child, above a guard page.
class Stack {
 public:
  Stack() : memory_(mmap(nullptr, kSize, PROT_READ | PROT_WRITE, kFlags, -1, 0)) {
    if (valid()) mprotect(memory_, kGuard, PROT_NONE);
  }
  ~Stack() {
    if (valid()) munmap(memory_, kSize);
  }
  Stack(const Stack&) = delete;
  Stack& operator=(const Stack&) = delete;

  bool valid() const { return memory_ != MAP_FAILED; }
  void* top() const { return static_cast<char*>(memory_) + kSize; }

 private:
  static constexpr size_t kGuard = 16 * 1024;  // at least a page on every kernel that Berth runs on
  static constexpr size_t kSize = kGuard + 256 * 1024;
  static constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE;

  void* memory_;
};

// The data that all starts of children share, for the whole process.
struct Children {
  static constexpr size_t kMostIdle = 8;

  base::Mutex mutex;
  std::vector<Dying> dying ABSL_GUARDED_BY(mutex);
  std::vector<std::unique_ptr<Stack>> idle ABSL_GUARDED_BY(mutex);
};

Children& GetChildren() {
  // It is never destroyed, because children may be started until the process ends.
  static Children& children = *new Children;
  return children;
}

// All data that a child touches; it lives as long as the child.
struct Call {
  ~Call() {
    Children& global = GetChildren();
    base::MutexLock lock(global.mutex);
    if (stack->valid() && global.idle.size() < Children::kMostIdle)
      global.idle.push_back(std::move(stack));
  }

  std::function<int()> body;
  std::span<std::byte> reply;
  int out = -1;
  std::vector<int> keeps;  // descriptors, `out` among them
  std::unique_ptr<Stack> stack;
};

std::shared_ptr<Call> PrepareCall(std::span<std::byte> reply, std::function<int()> body,
                                  std::vector<int> keeps) {
  auto call = std::make_shared<Call>();
  call->body = std::move(body);
  call->reply = reply;
  call->keeps = std::move(keeps);
  Children& global = GetChildren();
  base::MutexLock lock(global.mutex);
  if (!global.idle.empty()) {
    call->stack = std::move(global.idle.back());
    global.idle.pop_back();
  } else {
    call->stack = std::make_unique<Stack>();
  }
  return call;
}

int MillisecondsLeft(Deadline deadline) {
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  return static_cast<int>(std::clamp<int64_t>(left.count(), 0, 1 << 30));
}

// Returns the number of bytes that came before end of file or `deadline`.
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

bool WriteBytes(int fd, const void* data, size_t size) {
  return base::WriteAll(fd, {static_cast<const char*>(data), size}) == 0;
}

int ChildMain(void* argument) {
  const Call& call = *static_cast<const Call*>(argument);
  CloseAllBut(call.keeps);
  const int result = call.body();
  bool sent = WriteBytes(call.out, &result, sizeof(result));
  if (!kSharesMemory && sent && result == 0) {
    sent = WriteBytes(call.out, call.reply.data(), call.reply.size());
  }
  _exit(sent ? 0 : 1);
}

// Returns the child's pid, or -1 with errno. The calling thread shares its errno with the child, so
// it may make no call that fails until the child has answered.
pid_t ForkChild(Call& call, base::UniqueFd& pidfd) {
  if constexpr (kSharesMemory) {
    int fd = -1;
    const pid_t pid =
        clone(ChildMain, call.stack->top(), CLONE_VM | CLONE_PIDFD | SIGCHLD, &call, &fd);
    pidfd.Reset(fd);
    return pid;
  }
  // _Fork runs no atfork handlers, which may take locks that another thread holds.
  const pid_t pid = _Fork();
  if (pid == 0) ChildMain(&call);
  if (pid > 0) pidfd = OpenPid(pid);
  return pid;
}

// Waits for the end of a child that has answered, or leaves it to a later call.
void ReapChild(pid_t pid, const base::UniqueFd& pidfd, Deadline deadline,
               std::shared_ptr<Call> call) {
  if (pidfd.valid() && !WaitReadable(pidfd.get(), deadline)) {
    return ReapLater(pid, std::move(call));
  }
  while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
}

base::Status RunChild(std::string_view what, std::chrono::milliseconds timeout,
                      std::span<std::byte> reply, std::function<int()> body, std::vector<int> keeps,
                      base::FlightSpan& span);

}  // namespace

// `dead` is declared before the lock, so that what the children kept is released without the lock.
void ReapDeadChildren() {
  std::vector<Dying> dead;
  Children& global = GetChildren();
  base::MutexLock lock(global.mutex);
  const auto end = std::partition(global.dying.begin(), global.dying.end(), [](const Dying& dying) {
    return waitpid(dying.pid, nullptr, WNOHANG) == 0;
  });
  std::move(end, global.dying.end(), std::back_inserter(dead));
  global.dying.erase(end, global.dying.end());
}

void CloseAllBut(std::span<const int> kept) {
  for (unsigned from = 0;;) {
    int next = INT_MAX;
    for (const int fd : kept) {
      if (fd >= 0 && static_cast<unsigned>(fd) >= from) next = std::min(next, fd);
    }
    if (next == INT_MAX) {
      close_range(from, ~0U, 0);
      return;
    }
    const auto end = static_cast<unsigned>(next);
    if (end > from) close_range(from, end - 1, 0);
    from = end + 1;
  }
}

bool WaitReadable(int fd, Deadline deadline) {
  for (;;) {
    pollfd poll_fd = {.fd = fd, .events = POLLIN, .revents = 0};
    const int n = poll(&poll_fd, 1, MillisecondsLeft(deadline));
    if (n > 0) return true;
    if (n < 0 && errno == EINTR) continue;
    return false;
  }
}

base::UniqueFd OpenPid(pid_t pid) {
  // The call is made by number, because the header of glibc 2.36 declares it without C linkage.
  return base::UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
}

void ReapLater(pid_t pid, std::shared_ptr<void> kept) {
  Children& global = GetChildren();
  base::MutexLock lock(global.mutex);
  global.dying.push_back({pid, std::move(kept)});
}

base::Status RunInChild(std::string_view what, std::chrono::milliseconds timeout,
                        std::function<int()> body, std::vector<int> keeps) {
  return RunInChild(what, timeout, {}, std::move(body), std::move(keeps));
}

base::Status RunInChild(std::string_view what, std::chrono::milliseconds timeout,
                        std::span<std::byte> reply, std::function<int()> body,
                        std::vector<int> keeps) {
  base::FlightSpan span(base::FlightKind::kProcess, "berth", what);
  const base::Status status =
      RunChild(what, timeout, reply, std::move(body), std::move(keeps), span);
  span.End(status);
  return status;
}

namespace {

base::Status RunChild(std::string_view what, std::chrono::milliseconds timeout,
                      std::span<std::byte> reply, std::function<int()> body, std::vector<int> keeps,
                      base::FlightSpan& span) {
  const Deadline deadline = std::chrono::steady_clock::now() + timeout;
  ReapDeadChildren();
  const std::shared_ptr<Call> call = PrepareCall(reply, std::move(body), std::move(keeps));
  if (!call->stack->valid()) return ErrnoError(ENOMEM, fmt::format("{}: stack", what));
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return ErrnoError(errno, fmt::format("{}: pipe", what));
  base::UniqueFd in(ends[0]), out(ends[1]), pidfd;
  call->out = out.get();
  call->keeps.push_back(out.get());

  // Signals stay blocked in the child, because the handlers of this process must not run there.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  const pid_t pid = ForkChild(*call, pidfd);
  const int fork_error = errno;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (pid < 0) return ErrnoError(fork_error, fmt::format("{}: clone", what));
  out.Reset();
  span.SetPid(pid);

  int result = 0;
  bool complete = ReadUntil(in.get(), &result, sizeof(result), deadline) == sizeof(result);
  if (!kSharesMemory && complete && result == 0) {
    complete = ReadUntil(in.get(), reply.data(), reply.size(), deadline) == reply.size();
  }
  if (!complete) {
    kill(pid, SIGKILL);
    const bool late = std::chrono::steady_clock::now() >= deadline;
    ReapChild(pid, pidfd, std::chrono::steady_clock::now() + std::chrono::milliseconds(100), call);
    if (!late) return base::Error(base::StatusCode::kInternal, "{}: the child process died", what);
    return base::Error(base::StatusCode::kDeadlineExceeded, "{}: no answer within {} ms", what,
                       timeout.count());
  }
  // The exit itself can block: closing a descriptor flushes data, and a dead FUSE server never
  // answers.
  ReapChild(pid, pidfd, deadline, call);
  return result == 0 ? base::OkStatus() : ErrnoError(result, what);
}

}  // namespace

}  // namespace berth::platform
