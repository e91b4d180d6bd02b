// Turns SIGINT and SIGTERM into a std::stop_token.
#pragma once

#include <stop_token>
#include <thread>

#include "base/unique_fd.h"

namespace berth::cmd {

// Construct it before other threads start, so that they inherit the blocked signals. It also
// ignores SIGPIPE. The first signal requests the stop; a second one ends the process.
//
// If this object still exists ten seconds after the first signal, the process says so in the log
// and ends, so that nothing that hangs, or that a client holds, keeps a successor from starting.
// That is as safe as a crash: what was under way is recorded, and its outcome counts as unknown.
class StopSignals {
 public:
  enum class Process {
    // A role was asked to end, so that it ends with 0, also if it does so late.
    kRole,
    // A command that ends late has not done what it was called for: 128 and the signal's number, as
    // a shell says of a process that a signal killed.
    kCommand,
  };
  explicit StopSignals(Process process = Process::kRole);
  // Call it after all else has ended: declare the object first. It does not wait, because each
  // command of the command line ends with it.
  ~StopSignals();
  std::stop_token token() const { return source_.get_token(); }
  // Blocks until a signal has come.
  void Wait();

 private:
  // Returns the signal that has come, or 0 once `end_` is written.
  int WaitForSignal();

  std::stop_source source_;
  base::UniqueFd end_;      // an eventfd, which the destructor writes
  base::UniqueFd signals_;  // a signalfd of SIGINT and SIGTERM
  std::jthread thread_;
};

}  // namespace berth::cmd
