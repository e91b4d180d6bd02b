// The common parts of the implementations of Exec (exec.h).
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "base/flight.h"
#include "base/status.h"
#include "platform/processes/exec.h"

namespace berth::platform {

// Returns the command's argv, in which the path of its file stands for each "{NAME}" of a secret.
// `place` makes the file of a secret and returns its path. INVALID_ARGUMENT: a secret has more than
// 1 MiB.
base::StatusOr<std::vector<std::string>> BuildArgv(
    const Command& command,
    const std::function<base::StatusOr<std::string>(const std::string& content)>& place);

// Reads what `fd`, the end of a pipe, has without waiting. Keeps it in `kept` up to `limit` bytes,
// and drops the rest, so that the writer never blocks. Reads no more than a pipe can hold, because
// a writer may be as fast as this reader, and the caller must see its deadline. Returns false at
// the end of the file or after an error.
bool DrainPipe(int fd, std::string& kept, size_t limit);

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
