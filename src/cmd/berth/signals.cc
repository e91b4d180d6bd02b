#include "cmd/berth/signals.h"

#include <pthread.h>
#include <unistd.h>

#include <chrono>
#include <csignal>

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

StopSignals::StopSignals(Process process) {
  const sigset_t set = MakeStopSet();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  // SIGPIPE is ignored, because a write to a peer that is gone then fails with EPIPE.
  signal(SIGPIPE, SIG_IGN);
  thread_ = std::jthread([this, process](const std::stop_token& done) {
    pthread_setname_np(pthread_self(), "signals");
    const int signal = WaitForSignal(done);
    constexpr int kKilled = 128;
    if (signal != 0) EndAfterLimit(done, process == Process::kCommand ? kKilled + signal : 0);
  });
}

int StopSignals::WaitForSignal(const std::stop_token& done) {
  const sigset_t waited = MakeStopSet();
  while (!done.stop_requested()) {
    const timespec pause = {.tv_sec = 0, .tv_nsec = 200'000'000};
    const int came = sigtimedwait(&waited, nullptr, &pause);
    if (came <= 0) continue;
    source_.request_stop();
    // A second signal ends the process at once.
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    pthread_sigmask(SIG_UNBLOCK, &waited, nullptr);
    return came;
  }
  return 0;
}

StopSignals::~StopSignals() {
  thread_.request_stop();
  thread_.join();
}

void StopSignals::Wait() { base::WaitForStop(token()); }

}  // namespace berth::cmd
