#include "guest/containers/guest_process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

namespace berth::guest {

namespace ipc = base::ipc;
using base::UniqueFd;
using ipc::Channel;
using ipc::Failure;
using ipc::FrameType;

namespace {

// How long the output of a terminal is awaited after the end of its process: the kernel hands it
// on by a worker, so it may come after the end. Processes that the container leaves in another's
// PID namespace may keep the terminal open for longer.
constexpr std::chrono::milliseconds kTerminalTime{1'000};

// How long the end of a process is awaited that was killed because nobody needs it any more.
constexpr std::chrono::milliseconds kStopTime{10'000};
constexpr int kStopStep = 100;  // milliseconds

}  // namespace

GuestProcess::GuestProcess(Options options)
    : name_(std::move(options.name)),
      pid_(options.pid),
      has_terminal_(options.terminal.valid()),
      hello_time_(options.hello_time),
      signal_all_(std::move(options.signal_all)),
      process_(static_cast<int>(syscall(SYS_pidfd_open, options.pid, 0))),
      stop_(eventfd(0, EFD_CLOEXEC)),
      peer_(std::in_place,
            ipc::StreamPeer::Options{
                .line = std::move(options.line), .name = name_, .is_port = options.is_port}),
      terminal_(std::move(options.terminal)) {
  if (has_terminal_) {
    peer_->AddSink(Channel::kInput, UniqueFd(fcntl(terminal_.get(), F_DUPFD_CLOEXEC, 3)));
    peer_->AddSource(Channel::kOutput, UniqueFd(fcntl(terminal_.get(), F_DUPFD_CLOEXEC, 3)));
  } else {
    if (options.input.valid()) peer_->AddSink(Channel::kInput, std::move(options.input));
    if (options.output.valid()) peer_->AddSource(Channel::kOutput, std::move(options.output));
    if (options.errors.valid()) peer_->AddSource(Channel::kErrors, std::move(options.errors));
  }
  thread_ = std::jthread([this] { Serve(); });
}

GuestProcess::~GuestProcess() {
  static_cast<void>(Signal(SIGKILL));
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  static_cast<void>(eventfd_write(stop_.get(), 1));
}

Failure GuestProcess::Signal(int signal) const {
  // The lock keeps the process from being reaped meanwhile; a pidfd never means another process.
  const std::lock_guard lock(mutex_);
  if (!end_ && syscall(SYS_pidfd_send_signal, process_.get(), signal, nullptr, 0) == 0) {
    return ipc::Ok();
  }
  if (end_ || errno == ESRCH) {
    return {ipc::Problem::kRefused, "the process of '" + name_ + "' has ended", "NOT_FOUND"};
  }
  return ipc::SystemFailure("send signal " + std::to_string(signal) + " to '" + name_ + "'", errno);
}

std::optional<ProcessEnd> GuestProcess::FindEnd() const {
  const std::lock_guard lock(mutex_);
  return end_;
}

bool GuestProcess::WaitForEnd(ipc::Deadline deadline) const {
  std::unique_lock lock(mutex_);
  return changed_.wait_until(lock, deadline, [this] { return end_.has_value(); });
}

bool GuestProcess::IsClosed() const {
  const std::lock_guard lock(mutex_);
  return closed_;
}

void GuestProcess::CollectEnd() {
  const std::lock_guard lock(mutex_);
  if (end_) return;
  siginfo_t info{};
  if (waitid(P_PIDFD, static_cast<id_t>(process_.get()), &info, WEXITED | WNOHANG) != 0) {
    // Somebody else has taken it. That it has ended is known all the same.
    if (errno == ECHILD) end_ = ProcessEnd{.code = 255, .signal = 0};
  } else if (info.si_pid != 0) {
    const bool exited = info.si_code == CLD_EXITED;
    end_ = ProcessEnd{.code = exited ? info.si_status : 128 + info.si_status,
                      .signal = exited ? 0 : info.si_status};
  }
  if (end_) changed_.notify_all();
}

void GuestProcess::HandleControls() {
  while (const auto frame = peer_->NextControl()) {
    if (frame->type == FrameType::kResize && terminal_.valid()) {
      winsize size{};
      size.ws_row = static_cast<unsigned short>(frame->first);
      size.ws_col = static_cast<unsigned short>(frame->second);
      ioctl(terminal_.get(), TIOCSWINSZ, &size);
    } else if (frame->type == FrameType::kSignal) {
      const int signal = static_cast<int>(frame->first);
      if (frame->second != 0 && signal_all_) {
        signal_all_(signal);
      } else {
        static_cast<void>(Signal(signal));  // the end of a process that is gone is told anyway
      }
    }
  }
}

Failure GuestProcess::TellEnd() {
  if (has_terminal_) {
    if (!terminal_deadline_) terminal_deadline_ = ipc::DeadlineIn(kTerminalTime);
    terminal_.Reset();
    if (std::chrono::steady_clock::now() >= *terminal_deadline_) peer_->CloseSourcesWhenEmpty();
  } else {
    peer_->CloseSourcesWhenEmpty();  // what the process wrote is in its pipes
  }
  if (Failure moved = peer_->Move({}); !moved.ok()) return moved;
  if (told_end_ || (peer_->HasSources() && !peer_->IsHeldUp())) return ipc::Ok();
  const auto end = FindEnd();
  peer_->SendExit(static_cast<uint32_t>(end->code), static_cast<uint32_t>(end->signal));
  told_end_ = true;
  return peer_->Move({});
}

Failure GuestProcess::MoveStream(std::span<const pollfd> polled, ipc::Deadline hello_deadline) {
  if (Failure moved = peer_->Move(polled); !moved.ok()) return moved;
  HandleControls();
  if (!peer_->IsGreeted() && std::chrono::steady_clock::now() >= hello_deadline) {
    return {ipc::Problem::kTimeout, "no stand-in of '" + name_ + "' came", ""};
  }
  return FindEnd() ? TellEnd() : ipc::Ok();
}

int GuestProcess::FindWait(bool pauses, ipc::Deadline hello_deadline) const {
  const std::optional<ipc::Deadline> deadline =
      !peer_->IsGreeted() ? std::optional(hello_deadline)
                          : (told_end_ ? std::nullopt : terminal_deadline_);
  int wait = pauses ? ipc::StreamPeer::kPortPause : -1;
  if (deadline) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        *deadline - std::chrono::steady_clock::now());
    const int until = static_cast<int>(std::clamp<int64_t>(left.count() + 1, 0, 600'000));
    wait = wait < 0 ? until : std::min(wait, until);
  }
  return wait;
}

void GuestProcess::Serve() {
  const ipc::Deadline hello_deadline = ipc::DeadlineIn(hello_time_);
  std::optional<ipc::Deadline> stop_deadline;
  std::vector<pollfd> polled;
  while (true) {
    const bool ended = FindEnd().has_value();
    if (ended && (!peer_ || stop_deadline)) break;
    // A process that the kernel does not let die is left behind.
    if (stop_deadline && std::chrono::steady_clock::now() >= *stop_deadline) break;
    polled.clear();
    polled.push_back({.fd = stop_deadline ? -1 : stop_.get(), .events = POLLIN, .revents = 0});
    polled.push_back({.fd = ended ? -1 : process_.get(), .events = POLLIN, .revents = 0});
    int wait = -1;
    if (peer_) wait = FindWait(peer_->AddPolled(polled), hello_deadline);
    if (stop_deadline) wait = kStopStep;
    if (poll(polled.data(), polled.size(), wait) < 0 && errno != EINTR) break;

    if (polled[0].revents != 0) stop_deadline = ipc::DeadlineIn(kStopTime);
    CollectEnd();
    if (peer_ && !MoveStream(std::span<const pollfd>(polled).subspan(2), hello_deadline).ok()) {
      static_cast<void>(Signal(SIGKILL));
      terminal_.Reset();
      peer_.reset();
    }
  }
  peer_.reset();
  terminal_.Reset();
  const std::lock_guard lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

}  // namespace berth::guest
