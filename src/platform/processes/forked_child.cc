#include "platform/processes/forked_child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/files/whole_file.h"
#include "base/flight.h"
#include "base/unique_fd.h"
#include "platform/errno.h"
#include "platform/processes/child.h"

namespace berth::platform {
namespace {

using SteadyTime = std::chrono::steady_clock::time_point;

// How long a child that was sent SIGKILL may take to end before it is left to a later call.
constexpr std::chrono::milliseconds kKilledGrace{100};

// Reads all of `bytes`; false at the end of the file, or if the deadline passed first.
bool ReadWhole(int fd, std::span<std::byte> bytes, SteadyTime deadline) {
  while (!bytes.empty()) {
    if (!WaitReadable(fd, deadline)) return false;
    const ssize_t n = read(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
  return true;
}

[[noreturn]] void RunForkedBody(int out, std::span<const std::byte> reply,
                                const std::function<int()>& body) {
  const std::array<int, 1> kept = {out};
  CloseAllBut(kept);
  const int result = body();
  const auto send = [out](const void* data, size_t size) {
    return base::WriteAll(out, {static_cast<const char*>(data), size}) == 0;
  };
  const bool sent =
      send(&result, sizeof(result)) && (result != 0 || send(reply.data(), reply.size()));
  _exit(sent ? 0 : 1);
}

base::Status RunForked(std::string_view what, std::chrono::milliseconds timeout,
                       std::span<std::byte> reply, const std::function<int()>& body,
                       base::FlightSpan& span) {
  const SteadyTime deadline = std::chrono::steady_clock::now() + timeout;
  ReapDeadChildren();
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return ErrnoError(errno, fmt::format("{}: pipe", what));
  base::UniqueFd in(ends[0]), out(ends[1]);
  // Signals stay blocked in the child, because the handlers of this process must not run there.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  const pid_t pid = fork();
  if (pid == 0) RunForkedBody(out.get(), reply, body);
  const int fork_error = errno;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (pid < 0) return ErrnoError(fork_error, fmt::format("{}: fork", what));
  out.Reset();
  span.SetPid(pid);
  const base::UniqueFd ended = OpenPid(pid);

  int result = 0;
  const bool complete =
      ReadWhole(in.get(), std::as_writable_bytes(std::span(&result, 1)), deadline) &&
      (result != 0 || ReadWhole(in.get(), reply, deadline));
  const bool late = !complete && std::chrono::steady_clock::now() >= deadline;
  if (!complete) kill(pid, SIGKILL);
  // The exit itself can block: the kernel waits for reads that are under way.
  const SteadyTime patience = complete ? deadline : std::chrono::steady_clock::now() + kKilledGrace;
  // Without a descriptor of the child nobody may wait for it, because its end may block for ever.
  if (!ended.valid() || !WaitReadable(ended.get(), patience)) {
    ReapLater(pid);
  } else {
    while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  if (complete) return result == 0 ? base::OkStatus() : ErrnoError(result, what);
  if (!late) return base::Error(base::StatusCode::kInternal, "{}: the child process died", what);
  return base::Error(base::StatusCode::kDeadlineExceeded, "{}: no answer within {} ms", what,
                     timeout.count());
}

}  // namespace

base::Status RunInForkedChild(std::string_view what, std::chrono::milliseconds timeout,
                              std::span<std::byte> reply, const std::function<int()>& body) {
  base::FlightSpan span(base::FlightKind::kProcess, "berth", what);
  const base::Status status = RunForked(what, timeout, reply, body, span);
  span.End(status);
  return status;
}

}  // namespace berth::platform
