// `berth exec`: runs a command in a pod's container, with a terminal if asked for.
#pragma once

#include <string>
#include <vector>

#include "cli/arguments.h"
#include "kube/config.h"

namespace berth::cli {

struct ExecOptions {
  std::string pod;
  std::string container;  // empty: the only one
  std::vector<std::string> command;
  bool interactive = false;  // pass standard input on
  bool tty = false;
};

// Runs the command and returns its exit code. INVALID_ARGUMENT: options.command is empty. Other
// errors are those of kube::Exec.
StatusOr<int> ExecInContainer(const kube::Config& config, const ApiOptions& api,
                              const ExecOptions& options, std::stop_token stop);

}  // namespace berth::cli
