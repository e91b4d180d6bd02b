// Runs runc, which makes the containers in the guest, and takes what it answers. Thread-safe.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

#include "base/ipc/connection.h"
#include "base/ipc/result.h"
#include "base/unique_fd.h"

namespace berth::guest {

struct RuncOptions {
  std::string program = "/usr/sbin/runc";
  std::string root = "/run/runc";  // where runc keeps the state of its containers
};

// The standard descriptors of a process, as far as it has them; the others are /dev/null.
struct StandardFds {
  int input = -1;
  int output = -1;
  int errors = -1;
};

class Runc {
 public:
  explicit Runc(RuncOptions options) : options_(std::move(options)) {}

  // Runs `runc ARGUMENTS` until its end, with the given descriptors. `log` is the file to which it
  // writes its errors. kRefused: it failed, and the text is its own last error. kTimeout: it was
  // killed.
  base::ipc::Failure Run(const std::vector<std::string>& arguments, const std::string& log,
                         StandardFds fds, base::ipc::Deadline deadline) const;

  // Runs it with `input` as its standard input, at most a pipe's capacity, and returns its output
  // of at most kLargestOutput bytes.
  base::ipc::Result<std::string> Ask(const std::vector<std::string>& arguments,
                                     const std::string& log, std::string_view input,
                                     base::ipc::Deadline deadline) const;

  const RuncOptions& options() const { return options_; }

  static constexpr size_t kLargestOutput = 1024 * 1024;
  static constexpr size_t kLargestInput = 64 * 1024;

 private:
  base::ipc::Result<pid_t> Spawn(const std::vector<std::string>& arguments, const std::string& log,
                                 StandardFds fds) const;

  const RuncOptions options_;
};

// The text of the last error in runc's log, which has a JSON object per line; "": there is none.
std::string FindLastError(std::string_view log);

// A listening UNIX socket at which runc delivers the master of a container's terminal.
class ConsoleSocket {
 public:
  // Makes the socket at `path`, which must not exist and is removed again.
  static base::ipc::Result<ConsoleSocket> Listen(const std::string& path);
  ConsoleSocket() = default;
  ConsoleSocket(ConsoleSocket&&) = default;
  ConsoleSocket& operator=(ConsoleSocket&&) = default;
  ~ConsoleSocket();

  // Takes the master that runc has sent before its end.
  base::ipc::Result<base::UniqueFd> Receive(base::ipc::Deadline deadline);

 private:
  base::UniqueFd listener_;
  std::string path_;
};

}  // namespace berth::guest
