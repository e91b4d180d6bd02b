// What implementations of Exec (exec.h) have in common.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "base/flight.h"
#include "base/status.h"
#include "platform/processes/exec.h"

namespace berth::platform {

// A command's argv with the paths of its secrets in it, each of which
// `place` makes a file of. INVALID_ARGUMENT: one is too large.
base::StatusOr<std::vector<std::string>> ArgvWithSecrets(
    const Command& command,
    const std::function<base::StatusOr<std::string>(const std::string& content)>& place);

// A run in the flight record, from now on. Of the arguments it has the
// last path: others may be mount options that a person put a password into.
class RunSpan {
 public:
  explicit RunSpan(const Command& command);
  void SetPid(pid_t pid) { span_.SetPid(pid); }
  void End(const base::StatusOr<CommandResult>& result);

 private:
  base::FlightSpan span_;
};

}  // namespace berth::platform
