// Runs the command that berth-init may be given, beside the FUSE daemons.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/ipc/result.h"

namespace berth::init {

// Starts `command` with no signal blocked. It is a failure if the program cannot be run.
base::ipc::Result<pid_t> StartChild(const std::vector<std::string>& command);

// Returns the exit code as a shell does: 128 + signal if a signal ended the process.
int ToExitCode(int wait_status);

}  // namespace berth::init
