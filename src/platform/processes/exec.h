// Runs utilities (mkfs, fsck, mount helpers) with a deadline.
//
// The seam behind which mount utilities in pods stand: a caller names a program and gets its
// exit code and output, wherever it ran. Thread-safe.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"

namespace berth::platform {

// What a program is to read and argv must not hold (DESIGN rule 10): "{NAME}" within an argument
// stands for the path of a file (0600, never on a disk) that is there while the program runs.
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
  // It may leave a daemon behind (a FUSE file system), which keeps its streams: its end is that of
  // the program alone, wherever it runs.
  bool leaves_daemon = false;
  // Readable once nobody waits for the program any more: it is killed as at its deadline, with
  // CANCELLED. Borrowed; -1: none. For runs on this host alone.
  int cancel_fd = -1;
};

struct CommandResult {
  int exit_code = 0;  // 128 + signal for a process that a signal ended
  std::string out;
  std::string err;
};

class Exec {
 public:
  virtual ~Exec() = default;
  // A non-zero exit is a result, not an error. NOT_FOUND: no such program. DEADLINE_EXCEEDED,
  // CANCELLED: the whole process group was killed; the outcome of what it did is unknown.
  virtual base::StatusOr<CommandResult> Run(const Command& command) = 0;
};

// Runs programs on this host, each in a process group of its own, with no inherited descriptors.
std::unique_ptr<Exec> NewHostExec();

// What a non-zero exit says as an error, with the end of standard error, or else of the output:
// INTERNAL "mkfs.ext4 exited with 1: ...".
base::Status ExitFailure(const Command& command, const CommandResult& result);

// As exec.Run, but a non-zero exit is an error (ExitFailure). Gives standard output.
base::StatusOr<std::string> RunOk(Exec& exec, const Command& command);

}  // namespace berth::platform
