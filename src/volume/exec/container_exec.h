// Runs a utility in a container by CRI's ExecSync, with what platform::Exec promises and ExecSync
// lacks: milliseconds of a deadline, an end of the whole run at it, standard input, secrets, an end
// while a daemon lives on, and "no such program".
//
//   env LC_ALL=C BERTH_RUN=<id> NAME=value… PROGRAM …
//   sh -c '<folder there? then streams from and to files>' FOLDER env … (with files: run_folders.h)
//
// Every process of the run has BERTH_RUN=<id> in its environment: by it all of them are found and
// killed at the deadline, wherever ExecSync kills the first alone. The container needs `env`, and
// for what goes by files `sh`. Of each stream the runtime gives at most 16 MB. Thread-safe.
#pragma once

#include <optional>

#include "base/status.h"
#include "platform/exec.h"
#include "rpc/cri_client.h"
#include "volume/exec/pod_container.h"
#include "volume/exec/run_folders.h"

namespace berth::volume {

class ContainerExec {
 public:
  // Borrows both.
  ContainerExec(rpc::CriClient& runtime, RunFolders& folders)
      : runtime_(runtime), folders_(folders) {}

  // None: the container does not run any more, and nothing was run. Besides platform::Exec's
  // errors: FAILED_PRECONDITION and INTERNAL: nothing was run either; UNAVAILABLE and CANCELLED,
  // unless rpc::WasNotSent: what it did is unknown, and it has been killed.
  base::StatusOr<std::optional<platform::CommandResult>> Run(const PodContainer& container,
                                                             const platform::Command& command);

 private:
  rpc::CriClient& runtime_;
  RunFolders& folders_;
};

}  // namespace berth::volume
