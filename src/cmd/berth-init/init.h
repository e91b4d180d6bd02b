// Process 1 of a mount pod, from its registration to its end:
//
//              SIGTERM, SIGINT, SIGQUIT,         nothing is used,         the command and
//              or the command ended              or --grace is over       the rest ended
//   serving ──────────────────────────▶ leaving ──────────────────▶ ending ────────────────▶ exit
//
// serving: reaps what is left behind, and passes SIGHUP, SIGUSR1, SIGUSR2 and SIGWINCH on to the
// command.
// leaving: first withdraws the registration, so that nothing new comes to a pod that goes (with one
// of a newer pod nothing changes). Then it stays while the host has mounts that FUSE daemons of
// this container serve, or utilities run here, and says which; what changes is told by the mount
// tables themselves. Only the runtime's SIGKILL, at the end of the pod's grace period, is stronger.
// ending: SIGTERM to the command, then to all the rest, which have a few seconds.
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

  // The exit code of the process: the command's, or 0 without one; 1 if it cannot begin.
  int Run();

 private:
  using Clock = std::chrono::steady_clock;

  base::ipc::Failure Begin();
  void Serve();
  void StayWhileUsed();
  void End();

  // Waits for signals, and for changes of the mount tables; no longer than `limit`.
  void Wait(std::chrono::milliseconds limit);
  void TakeSignals();
  void Reap();
  void NoteTables();
  // What is used, a line each. From then on Wait sees the end of utilities that run.
  std::vector<std::string> InUse();

  const Options options_;
  sigset_t outer_signals_{};
  base::UniqueFd signals_, host_table_, own_table_;
  std::vector<base::UniqueFd> utilities_;  // pidfds: nobody's children here, they send no SIGCHLD
  std::vector<Mount> earlier_;             // mounts of the host that this container did not make
  std::optional<pid_t> child_;
  int exit_code_ = 0;
  bool leaving_ = false;
  bool no_children_ = false;
};

}  // namespace berth::init
