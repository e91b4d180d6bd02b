// The stand-in of a process that runs in a guest: a process on the host that is for containerd what
// the container's process would be. It holds the standard descriptors or the terminal, relays them
// and signals over the process's stream (base/ipc/guest_stream.h), and ends with its exit code.
//
//   forked --hello of the guest--> ready --exit--> ended; a child of it delivers what is left of
//      |                             |              the output to a reader that is slow
//      +--no hello in time: failed   +--the stream ends: the guest is gone; ended with 137
//
// The stand-in of a sandbox has no stream. It ends with the guest's machine.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/ipc/result.h"
#include "base/unique_fd.h"

namespace berth::oci {

struct StandIn {
  std::string name;         // of the stream
  base::UniqueFd line;      // the stream's end; not valid: it stands in for a sandbox
  base::UniqueFd machine;   // of a sandbox: a pidfd of its machine
  base::UniqueFd terminal;  // not valid: the standard descriptors of this process are relayed
  std::string record;       // the file to lock (guest_record.h); "": none
};

// Starts it and returns its pid once the guest has answered. It outlives this process.
base::ipc::Result<pid_t> LeaveStandIn(StandIn options);

// Asks the stand-in to send a signal to the process, or to all processes of the container.
base::ipc::Failure SignalStandIn(pid_t pid, int signal, bool all);

}  // namespace berth::oci
