// Process 1 of a mount pod, from its registration to its end:
//
//              SIGTERM, SIGINT, SIGQUIT,         nothing is used,         the command and
//              or the command ended              or --grace is over       the rest ended
//   serving ──────────────────────────▶ leaving ──────────────────▶ ending ────────────────▶ exit
//
// serving: reaps what is left behind, and passes SIGHUP, SIGUSR1, SIGUSR2 and SIGWINCH on to the
// command.
// leaving: first withdraws the registration, so that no new work comes to a pod that goes (a newer
// pod's registration stays). Then it stays while the host has mounts that FUSE daemons of this
// container serve, or utilities run here, and logs which. The kernel reports changes of the mount
// tables by poll. Only the runtime's SIGKILL, at the end of the pod's grace period, ends it
// earlier.
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
  // What is in use, one line each. From then on Wait also returns when one of the utilities ends
  // that run now.
  std::vector<std::string> InUse();

  const Options options_;
  sigset_t outer_signals_{};
  base::UniqueFd signals_, host_table_, own_table_;
  // pidfds, because utilities are no children of this process and so cause no SIGCHLD.
  std::vector<base::UniqueFd> utilities_;
  std::vector<Mount> earlier_;  // mounts of the host that this container did not make
  std::optional<pid_t> child_;
  int exit_code_ = 0;
  bool leaving_ = false;
  bool no_children_ = false;
};

}  // namespace berth::init
