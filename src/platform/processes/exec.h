// Runs utilities (mkfs, fsck, mount helpers) with a deadline.
//
// Mount utilities in pods are an implementation of this interface: a caller names a program and
// gets its exit code and output, wherever it ran. Thread-safe.
#pragma once

#include <chrono>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "base/status.h"

namespace berth::platform {

// Text that a program must read but that argv must not contain (docs/design.md, rule 10). "{NAME}"
// within an argument stands for the path of a file (0600, never on a disk) that exists while the
// program runs.
struct Secret {
  std::string name;
  std::string content;  // at most 1 MiB
};

struct Command {
  std::vector<std::string> argv;  // argv[0] is looked up in PATH
  std::vector<std::string> env;   // NAME=value, added to a minimal environment (PATH, LC_ALL=C)
  std::string stdin_data;         // written to standard input, which is then closed
  std::vector<Secret> secrets;
  std::chrono::milliseconds timeout{std::chrono::seconds(30)};
  size_t max_output = 64 * 1024;  // bytes kept of each stream; the rest is read and dropped
  // The program may leave a daemon behind (a FUSE file system) that keeps its streams open: the run
  // ends when the program itself ends, wherever it runs.
  bool leaves_daemon = false;
  // When its stop is requested, because the caller is to end, the program is ended, too, and Run
  // returns CANCELLED within five seconds. On this host the program's process group gets SIGTERM,
  // and three seconds later SIGKILL, if one of its processes still lives; in a pod it gets SIGKILL.
  // A daemon that the program left before, such as that of a mount, lives on, because its program
  // has ended.
  std::stop_token ending;
};

struct CommandResult {
  int exit_code = 0;  // 128 + signal for a process that a signal ended
  std::string out;
  std::string err;
};

class Exec {
 public:
  virtual ~Exec() = default;
  // A non-zero exit is a result, not an error. NOT_FOUND: no such program. INVALID_ARGUMENT: argv
  // is empty, or a secret is too large. DEADLINE_EXCEEDED, CANCELLED: the whole process group was
  // killed; the outcome of what it did is unknown.
  virtual base::StatusOr<CommandResult> Run(const Command& command) = 0;
};

// Runs programs on this host, each in a process group of its own, with no inherited descriptors.
std::unique_ptr<Exec> NewHostExec();

// Turns a non-zero exit into an error, with the end of standard error, or else of the output:
// INTERNAL "mkfs.ext4 exited with 1: ...".
base::Status ExitFailure(const Command& command, const CommandResult& result);

// As exec.Run, but a non-zero exit is an error (ExitFailure). Returns standard output.
base::StatusOr<std::string> RunOk(Exec& exec, const Command& command);

}  // namespace berth::platform
