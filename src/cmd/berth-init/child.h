// The command that berth-init runs beside the FUSE daemons, if it is given one.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/ipc/result.h"

namespace berth::init {

// Starts `command` with no signal blocked. A program that cannot be run is a failure.
base::ipc::Result<pid_t> StartChild(const std::vector<std::string>& command);

// As a shell gives it: 128 + signal for a process that a signal ended.
int ExitCode(int wait_status);

}  // namespace berth::init
