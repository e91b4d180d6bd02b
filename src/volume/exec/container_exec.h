// Runs a utility in a container by CRI's ExecSync, with what platform::Exec promises and ExecSync
// lacks: a deadline in milliseconds at which the whole run ends, standard input, secrets, output
// without a limit, an end while a daemon lives on, and "no such program".
//
//   sh -c SCRIPT FOLDER BERTH_RUN=<id> LC_ALL=C NAME=value… -- PROGRAM …
//
// FOLDER is one that agent and pod share (run_folders.h): the script opens the streams in it
// (run_streams.h), or says that it does not see them, and becomes the program. Every process of the
// run has BERTH_RUN=<id> in its environment: by it all of them are found and killed at the
// deadline, where ExecSync kills the first alone. Of many runs few begin at once (start_slots.h),
// and the wait is part of their time. The container needs `sh`, and the kubelet folder at the
// host's path. Thread-safe.
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

  // None: the container does not run any more, and nothing was run. Besides platform::Exec's
  // errors: FAILED_PRECONDITION and INTERNAL: nothing was run either; UNAVAILABLE and CANCELLED,
  // unless rpc::WasNotSent: what it did is unknown, and it has been killed.
  // `run_id` is for EndRun, should this process die meanwhile.
  base::StatusOr<std::optional<platform::CommandResult>> Run(
      const PodContainer& container, const platform::Command& command,
      const std::string& run_id = base::NewUuid());

  // Kills what an earlier process left of a run, and what that run left. UNAVAILABLE: something of
  // it waits in the kernel.
  static base::Status EndRun(const std::string& run_id);

 private:
  rpc::CriClient& runtime_;
  RunFolders& folders_;
  StartSlots slots_;
};

}  // namespace berth::volume
