#include "cmd/berth/signals.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <system_error>

#include "base/log.h"
#include "base/pause.h"

namespace berth::cmd {
namespace {

sigset_t MakeStopSet() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  return set;
}

// How long an orderly end may take.
constexpr std::chrono::seconds kLongestEnd{10};

// Ends the process with `exit_code` unless `done` is requested in time.
void EndAfterLimit(const std::stop_token& done, int exit_code) {
  if (!base::SleepFor(done, kLongestEnd)) return;
  LOG_ERROR("something did not end within {} s of the signal: the process ends without it",
            kLongestEnd.count());
  _exit(exit_code);
}

}  // namespace

StopSignals::StopSignals(Process process) : end_(eventfd(0, EFD_CLOEXEC)) {
  const sigset_t set = MakeStopSet();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  signals_.Reset(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!end_.valid() || !signals_.valid()) {
    // Without the descriptors nobody could stop the process in order.
    LOG_ERROR("wait for signals: {}", std::generic_category().message(errno));
    _exit(1);
  }
  // SIGPIPE is ignored, because a write to a peer that is gone then fails with EPIPE.
  signal(SIGPIPE, SIG_IGN);
  thread_ = std::jthread([this, process](const std::stop_token& done) {
    pthread_setname_np(pthread_self(), "signals");
    const int signal = WaitForSignal();
    constexpr int kKilled = 128;
    if (signal != 0) EndAfterLimit(done, process == Process::kCommand ? kKilled + signal : 0);
  });
}

int StopSignals::WaitForSignal() {
  std::array<pollfd, 2> events = {{{.fd = end_.get(), .events = POLLIN, .revents = 0},
                                   {.fd = signals_.get(), .events = POLLIN, .revents = 0}}};
  while (true) {
    if (poll(events.data(), events.size(), -1) < 0) continue;  // EINTR
    if (events[0].revents != 0) return 0;
    signalfd_siginfo came = {};
    if (read(signals_.get(), &came, sizeof(came)) != sizeof(came)) continue;
    source_.request_stop();
    // A second signal ends the process at once.
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    const sigset_t waited = MakeStopSet();
    pthread_sigmask(SIG_UNBLOCK, &waited, nullptr);
    return static_cast<int>(came.ssi_signo);
  }
}

StopSignals::~StopSignals() {
  thread_.request_stop();
  eventfd_write(end_.get(), 1);
  thread_.join();
}

void StopSignals::Wait() { base::WaitForStop(token()); }

}  // namespace berth::cmd
