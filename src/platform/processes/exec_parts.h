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

// A command's argv with the paths of its secrets in it; `place` makes a file of each secret.
// INVALID_ARGUMENT: a secret is too large.
base::StatusOr<std::vector<std::string>> ArgvWithSecrets(
    const Command& command,
    const std::function<base::StatusOr<std::string>(const std::string& content)>& place);

// Records a run in the flight record, from its construction on. It records only the last path of
// the arguments, because others may be mount options that hold a password.
class RunSpan {
 public:
  explicit RunSpan(const Command& command);
  void SetPid(pid_t pid) { span_.SetPid(pid); }
  void End(const base::StatusOr<CommandResult>& result);

 private:
  base::FlightSpan span_;
};

}  // namespace berth::platform
