// Runs a utility in a container by CRI's ExecSync. It adds the features of platform::Exec that
// ExecSync lacks: a deadline in milliseconds for the whole run, standard input, secrets, output of
// any length, a run that ends although a daemon lives on, and the error "no such program".
//
//   sh -c SCRIPT FOLDER BERTH_RUN=<id> LC_ALL=C NAME=value… -- PROGRAM …
//
// FOLDER is shared by agent and pod (run_folders.h). The script notes there that it has begun,
// opens the streams in it (run_streams.h) and then becomes the program; if it does not see them, it
// prints that and ends. The note tells what a failed ExecSync means, under any container runtime:
// without it nothing was run, and nothing will be, because the agent then takes its place.
// Every process of the run is in the container's cgroup and has BERTH_RUN=<id> in its environment.
// All those processes are killed at the deadline, because ExecSync kills only the first. Only a few
// of many runs start at once (start_slots.h), and the wait counts as part of their time. The
// container needs `sh`, and the kubelet folder at the host's path. Thread-safe.
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

  // nullopt: the container does not run any more, and nothing was run. Errors besides those of
  // platform::Exec: FAILED_PRECONDITION, and any error of which rpc::WasNotSent is true, mean that
  // nothing was run either; else UNAVAILABLE and CANCELLED mean that the outcome is unknown and the
  // run was killed.
  // `run_id` is for EndRun, in case this process dies during the run.
  base::StatusOr<std::optional<platform::CommandResult>> Run(
      const PodContainer& container, const platform::Command& command,
      const std::string& run_id = base::NewUuid());

  // Kills all processes of a run that an earlier agent process started in `container`. UNAVAILABLE:
  // some of them, or processes of the container that cannot be read, wait in the kernel.
  static base::Status EndRun(const PodContainer& container, const std::string& run_id);

 private:
  rpc::CriClient& runtime_;
  RunFolders& folders_;
  StartSlots slots_;
};

}  // namespace berth::volume
