#include "platform/processes/fork_template.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <utility>

#include "platform/errno.h"
#include "platform/processes/child.h"
#include "platform/processes/descriptor_message.h"

namespace berth::platform {
namespace {

// A fork takes less than a millisecond, but the machine may be busy.
constexpr std::chrono::seconds kOrderTime{10};

struct SocketPair {
  base::UniqueFd ours;
  base::UniqueFd theirs;
};

base::StatusOr<SocketPair> MakeSocketPair() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return ErrnoError(errno, "socketpair");
  }
  return SocketPair{.ours = base::UniqueFd(ends[0]), .theirs = base::UniqueFd(ends[1])};
}

// Serves orders until the other end is closed.
[[noreturn]] void RunTemplate(int control, const ForkTemplate::Main& main) {
  prctl(PR_SET_NAME, "fork-template");
  const std::array<int, 1> kept = {control};
  CloseAllBut(kept);
  signal(SIGCHLD, SIG_IGN);  // the kernel reaps the workers
  for (;;) {
    pollfd ordered = {.fd = control, .events = POLLIN, .revents = 0};
    poll(&ordered, 1, -1);
    const DescriptorMessage order = ReceiveDescriptor(control);
    if (!order.fd.valid()) _exit(0);
    const pid_t pid = fork();
    if (pid == 0) {
      close(control);
      signal(SIGCHLD, SIG_DFL);
      main(order.fd.get());
      _exit(0);
    }
    const base::UniqueFd ended = pid < 0 ? base::UniqueFd() : OpenPid(pid);
    // A negative number is an errno; the descriptor that comes with it is of no use.
    const int failed = ended.valid() ? 0 : -errno;
    const int sent = failed == 0 ? SendDescriptor(control, pid, ended.get())
                                 : SendDescriptor(control, failed, order.fd.get());
    if (sent != 0) _exit(1);
  }
}

}  // namespace

ForkTemplate::~ForkTemplate() {
  base::MutexLock lock(mutex_);
  if (control_.valid()) DropTemplate();
}

base::Status ForkTemplate::PrepareLocked() {
  if (control_.valid()) return base::OkStatus();
  ReapDeadChildren();
  ASSIGN_OR_RETURN(SocketPair pair, MakeSocketPair());
  // Signals stay blocked in the template, because the handlers of this process must not run there.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  pid_ = fork();
  if (pid_ == 0) RunTemplate(pair.theirs.get(), main_);
  const int fork_error = errno;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (pid_ < 0) return ErrnoError(fork_error, "fork");
  control_ = std::move(pair.ours);
  return base::OkStatus();
}

void ForkTemplate::DropTemplate() {
  control_.Reset();
  kill(pid_, SIGKILL);  // it is not reaped yet, so the number is its own
  ReapLater(std::exchange(pid_, -1));
}

base::StatusOr<ForkTemplate::Worker> ForkTemplate::OrderWorker() {
  RETURN_IF_ERROR(PrepareLocked());
  ASSIGN_OR_RETURN(SocketPair pair, MakeSocketPair());
  const int sent = SendDescriptor(control_.get(), 0, pair.theirs.get());
  const auto deadline = std::chrono::steady_clock::now() + kOrderTime;
  DescriptorMessage answer;
  if (sent == 0 && WaitReadable(control_.get(), deadline)) {
    answer = ReceiveDescriptor(control_.get());
  }
  if (!answer.fd.valid()) {
    DropTemplate();
    return base::Error(base::StatusCode::kInternal, "the process that forks workers died");
  }
  if (answer.number <= 0) return ErrnoError(-answer.number, "fork");
  return Worker{
      .pid = answer.number, .socket = std::move(pair.ours), .ended = std::move(answer.fd)};
}

base::Status ForkTemplate::Prepare() {
  base::MutexLock lock(mutex_);
  return PrepareLocked();
}

base::StatusOr<ForkTemplate::Worker> ForkTemplate::StartWorker(std::string_view what) {
  base::MutexLock lock(mutex_);
  const bool was_there = control_.valid();
  auto worker = OrderWorker();
  // A template that was idle may have been killed.
  if (!worker.ok() && was_there && !control_.valid()) worker = OrderWorker();
  if (!worker.ok()) return base::Annotate(worker.status(), what);
  return worker;
}

}  // namespace berth::platform
