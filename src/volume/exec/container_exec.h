// Runs a utility in a container by CRI's ExecSync, and adds what platform::Exec promises and
// ExecSync lacks: a deadline in milliseconds at which the whole run ends, standard input, secrets,
// output without a limit, an end while a daemon lives on, and the error "no such program".
//
//   sh -c SCRIPT FOLDER BERTH_RUN=<id> LC_ALL=C NAME=value… -- PROGRAM …
//
// FOLDER is shared by agent and pod (run_folders.h). The script opens the streams in it
// (run_streams.h), or says that it does not see them, and then becomes the program. Every process
// of the run has BERTH_RUN=<id> in its environment. By it all of them are found and killed at the
// deadline, because ExecSync kills only the first. Only a few of many runs start at once
// (start_slots.h), and the wait counts as part of their time. The container needs `sh`, and the
// kubelet folder at the host's path. Thread-safe.
#pragma once

#include <optional>
#include <string>

#include "base/ids.h"
#include "base/status.h"
#include "platform/processes/exec.h"
#include "rpc/cri_client.h"
#include "volume/exec/pod_container.h"
#include "volume/exec/run_folders.h"
#include "volume/exec/start_slots.h"

namespace berth::volume {

class ContainerExec {
 public:
  // Borrows both.
  ContainerExec(rpc::CriClient& runtime, RunFolders& folders, const StartLimits& limits = {})
      : runtime_(runtime), folders_(folders), slots_(limits) {}

  // None: the container does not run any more, and nothing was run. Errors besides those of
  // platform::Exec: FAILED_PRECONDITION and INTERNAL mean that nothing was run either; UNAVAILABLE
  // and CANCELLED, unless rpc::WasNotSent, mean that the outcome is unknown and the run was killed.
  // `run_id` is for EndRun, in case this process dies meanwhile.
  base::StatusOr<std::optional<platform::CommandResult>> Run(
      const PodContainer& container, const platform::Command& command,
      const std::string& run_id = base::NewUuid());

  // Kills what an earlier process left of a run, with everything that the run started. UNAVAILABLE:
  // some of its processes wait in the kernel.
  static base::Status EndRun(const std::string& run_id);

 private:
  rpc::CriClient& runtime_;
  RunFolders& folders_;
  StartSlots slots_;
};

}  // namespace berth::volume
