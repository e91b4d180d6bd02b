#include "cmd/berth-oci/stand_in.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "base/files/whole_file.h"
#include "base/ipc/connection.h"
#include "base/ipc/stream_peer.h"
#include "cmd/berth-oci/guest_record.h"

namespace berth::oci {

namespace ipc = base::ipc;
using base::UniqueFd;
using ipc::Channel;
using ipc::Failure;
using ipc::Problem;
using ipc::Result;

namespace {

// The signal that carries the number of another, because SIGKILL cannot be caught.
const int kCarrier = SIGRTMIN + 3;
constexpr int kToAll = 256;  // added to the number

constexpr std::chrono::seconds kHelloTime{30};
// How long a process may live on after SIGKILL was sent to it. A guest that hangs must not keep the
// pod from its end.
constexpr std::chrono::seconds kKillTime{30};
constexpr int kKilled = 128 + SIGKILL;
constexpr size_t kLongestError = 4096;

int WaitUntil(std::optional<ipc::Deadline> deadline) {
  if (!deadline) return -1;
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
      *deadline - std::chrono::steady_clock::now());
  return static_cast<int>(std::clamp<int64_t>(left.count() + 1, 0, 60'000));
}

bool HasPassed(std::optional<ipc::Deadline> deadline) {
  return deadline && std::chrono::steady_clock::now() >= *deadline;
}

// The process itself, after the fork.
class Relay {
 public:
  Relay(StandIn& options, UniqueFd ready)
      : options_(options), ready_(std::move(ready)), is_sandbox_(!options.line.valid()) {}

  [[noreturn]] void Run() {
    Detach();
    if (!options_.record.empty()) {
      const Result<int> locked = LockGuestRecord(options_.record);
      if (!locked.ok()) Fail(locked.failure().text);
    }
    BlockSignals();
    if (is_sandbox_) WaitForMachine();
    ConnectStream();
    RelayStream();
  }

 private:
  void Detach() {
    setsid();
    prctl(PR_SET_NAME, "berth-stand-in");
    if (chdir("/") != 0) Fail("enter '/'");
    if (options_.terminal.valid()) ioctl(options_.terminal.get(), TIOCSCTTY, 0);
    for (UniqueFd& standard : standards_) standard.Reset();
    const bool relays = !is_sandbox_ && !options_.terminal.valid();
    UniqueFd null(open("/dev/null", O_RDWR | O_CLOEXEC));
    for (int fd = 0; fd < 3; ++fd) {
      if (relays) standards_[fd].Reset(fcntl(fd, F_DUPFD_CLOEXEC, 3));
      dup2(null.get(), fd);
    }
    null.Reset();
    CloseOthers();
  }

  // Closes what it has inherited, so that nobody waits for the end of a pipe that it holds.
  void CloseOthers() {
    std::vector<int> kept = {ready_.get(), options_.line.get(), options_.machine.get(),
                             options_.terminal.get()};
    for (const UniqueFd& standard : standards_) kept.push_back(standard.get());
    std::sort(kept.begin(), kept.end());
    unsigned first = 3;
    for (const int fd : kept) {
      if (fd < 3) continue;
      if (static_cast<unsigned>(fd) > first) {
        syscall(SYS_close_range, first, static_cast<unsigned>(fd) - 1, 0);
      }
      first = static_cast<unsigned>(fd) + 1;
    }
    syscall(SYS_close_range, first, ~0U, 0);
  }

  void BlockSignals() {
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, nullptr);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGCHLD, SIG_IGN);
    signals_.Reset(signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!signals_.valid()) Fail("make a descriptor for signals");
  }

  [[noreturn]] void Fail(const std::string& text) {
    static_cast<void>(base::WriteAll(ready_.get(), "e" + text));
    _exit(1);
  }
  void Report() {
    static_cast<void>(base::WriteAll(ready_.get(), "k"));
    ready_.Reset();
  }

  struct Signal {
    int number = 0;
    bool to_all = false;
    bool from_kernel = false;
  };
  std::optional<Signal> NextSignal() {
    signalfd_siginfo info{};
    if (read(signals_.get(), &info, sizeof(info)) != sizeof(info)) return std::nullopt;
    const int number = static_cast<int>(info.ssi_signo);
    if (number == kCarrier) {
      return Signal{.number = info.ssi_int % kToAll, .to_all = info.ssi_int >= kToAll};
    }
    return Signal{.number = number, .from_kernel = info.ssi_code > 0};
  }

  [[noreturn]] void WaitForMachine() {
    Report();
    while (true) {
      pollfd polled[] = {{.fd = signals_.get(), .events = POLLIN, .revents = 0},
                         {.fd = options_.machine.get(), .events = POLLIN, .revents = 0}};
      poll(polled, 2, -1);
      if (polled[1].revents != 0) _exit(kKilled);
      while (const auto sent = NextSignal()) {
        if (sent->number == SIGTERM || sent->number == SIGINT || sent->number == SIGKILL) {
          _exit(128 + sent->number);
        }
      }
    }
  }

  void ConnectStream() {
    peer_.emplace(
        ipc::StreamPeer::Options{.line = std::move(options_.line), .name = options_.name});
    if (options_.terminal.valid()) {
      peer_->AddSource(Channel::kInput,
                       UniqueFd(fcntl(options_.terminal.get(), F_DUPFD_CLOEXEC, 3)));
      peer_->AddSink(Channel::kOutput,
                     UniqueFd(fcntl(options_.terminal.get(), F_DUPFD_CLOEXEC, 3)));
      SendSize();
    } else {
      peer_->AddSource(Channel::kInput, ipc::MakeNonBlocking(std::move(standards_[0]), true));
      peer_->AddSink(Channel::kOutput, ipc::MakeNonBlocking(std::move(standards_[1]), false));
      peer_->AddSink(Channel::kErrors, ipc::MakeNonBlocking(std::move(standards_[2]), false));
    }
  }

  void SendSize() {
    winsize size{};
    if (ioctl(options_.terminal.get(), TIOCGWINSZ, &size) == 0 && size.ws_row > 0) {
      peer_->SendResize(size.ws_row, size.ws_col);
    }
  }

  void HandleSignals() {
    while (const auto sent = NextSignal()) {
      if (sent->number == SIGWINCH) {
        if (options_.terminal.valid()) SendSize();
      } else if (sent->number > 0 && !sent->from_kernel) {
        peer_->SendSignal(static_cast<uint32_t>(sent->number), sent->to_all);
        if (sent->number == SIGKILL && !kill_deadline_) {
          kill_deadline_ = ipc::DeadlineIn(kKillTime);
        }
      }
    }
  }

  [[noreturn]] void RelayStream() {
    const ipc::Deadline hello_deadline = ipc::DeadlineIn(kHelloTime);
    std::vector<pollfd> polled;
    while (true) {
      polled = {{.fd = signals_.get(), .events = POLLIN, .revents = 0}};
      peer_->AddPolled(polled);
      const bool waits = ready_.valid();
      poll(polled.data(), polled.size(),
           WaitUntil(waits ? std::optional(hello_deadline) : kill_deadline_));
      HandleSignals();
      const Failure moved = peer_->Move(std::span<const pollfd>(polled).subspan(1));
      if (waits && peer_->IsGreeted()) Report();
      while (const auto frame = peer_->NextControl()) {
        if (frame->type == ipc::FrameType::kExit) End(static_cast<int>(frame->first));
      }
      if (!moved.ok()) {
        if (ready_.valid()) Fail(moved.text);
        End(kKilled);
      }
      if (ready_.valid() && HasPassed(hello_deadline)) Fail("the guest does not answer");
      if (HasPassed(kill_deadline_)) End(kKilled);
    }
  }

  // Ends with this code. A child stays until a slow reader has taken the rest of the output.
  [[noreturn]] void End(int code) {
    static_cast<void>(peer_->Move({}));
    if (!peer_->HasDeliveredAll() && fork() == 0) DeliverRest();
    _exit(code);
  }

  [[noreturn]] void DeliverRest() {
    std::vector<pollfd> polled;
    while (!peer_->HasDeliveredAll()) {
      polled.clear();
      peer_->AddPolled(polled);
      poll(polled.data(), polled.size(), -1);
      static_cast<void>(peer_->Move(polled));  // after a failure it delivers what it has
    }
    _exit(0);
  }

  StandIn& options_;
  UniqueFd ready_;  // valid: nobody was told that this process is ready
  const bool is_sandbox_;
  UniqueFd standards_[3];
  UniqueFd signals_;
  std::optional<ipc::StreamPeer> peer_;
  std::optional<ipc::Deadline> kill_deadline_;
};

}  // namespace

Result<pid_t> LeaveStandIn(StandIn options) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return ipc::SystemFailure("make a pipe", errno);
  const UniqueFd reading(ends[0]);
  UniqueFd writing(ends[1]);
  const pid_t pid = fork();
  if (pid < 0) return ipc::SystemFailure("fork", errno);
  if (pid == 0) Relay(options, std::move(writing)).Run();
  writing.Reset();
  std::string answer;
  const int error = base::ReadAll(reading.get(), kLongestError, answer);
  if (error == 0 && answer == "k") return pid;
  kill(pid, SIGKILL);
  while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) continue;
  if (answer.starts_with('e')) return Failure{Problem::kSystem, answer.substr(1), ""};
  return Failure{Problem::kSystem, "the stand-in of '" + options.name + "' ended early", ""};
}

Failure SignalStandIn(pid_t pid, int signal, bool all) {
  sigval value{};
  value.sival_int = signal + (all ? kToAll : 0);
  if (sigqueue(pid, kCarrier, value) == 0) return ipc::Ok();
  return ipc::SystemFailure("send a signal to the stand-in", errno);
}

}  // namespace berth::oci
