// Process 1 of a mount pod, from its registration to its end:
//
//              SIGTERM, SIGINT, SIGQUIT,         nothing is used,         the command and
//              or the command ended              or --grace is over       the rest ended
//   serving ──────────────────────────▶ leaving ──────────────────▶ ending ────────────────▶ exit
//
// serving: reaps orphaned processes, and passes SIGHUP, SIGUSR1, SIGUSR2 and SIGWINCH on to the
// command.
// leaving: first withdraws the registration, so that this pod gets no new work (the registration of
// a newer pod stays). Then stays while the host has mounts that FUSE daemons of this container
// serve, or while utilities run here, and logs them. The kernel reports changes of the mount tables
// by poll. Only --grace, or the runtime's SIGKILL at the end of the pod's grace period, ends this
// state earlier.
// ending: sends SIGTERM to the command, and then to all other processes, which have a few seconds.
#pragma once

#include <signal.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/ipc/result.h"
#include "base/unique_fd.h"
#include "cmd/berth-init/fuse_mounts.h"
#include "cmd/berth-init/options.h"

namespace berth::init {

class Init {
 public:
  explicit Init(Options options) : options_(std::move(options)) {}

  // Runs all states. Returns the exit code of the process: that of the command, or 0 without a
  // command; 1 if it cannot start.
  int Run();

 private:
  using Clock = std::chrono::steady_clock;

  base::ipc::Failure SetUp();
  void ServeUntilLeaving();
  void StayWhileUsed();
  void EndProcesses();

  // Waits for signals and for changes of the mount tables, at most for `limit`.
  void WaitForEvents(std::chrono::milliseconds limit);
  void ReadSignals();
  void ReapChildren();
  void ForgetGoneMounts();
  // Describes each mount and utility in use, in one line. From then on WaitForEvents also returns
  // when one of these utilities ends.
  std::vector<std::string> ListUses();

  const Options options_;
  sigset_t outer_signals_{};
  base::UniqueFd signals_, host_table_, own_table_;
  // pidfds, because utilities are not children of this process and so cause no SIGCHLD.
  std::vector<base::UniqueFd> utilities_;
  std::vector<Mount> earlier_;  // mounts of the host that this container did not make
  std::optional<pid_t> child_;
  int exit_code_ = 0;
  bool leaving_ = false;
  bool no_children_ = false;
};

}  // namespace berth::init
