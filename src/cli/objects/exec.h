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

// Returns the command's exit code.
StatusOr<int> Exec(const kube::Config& config, const ApiOptions& api, const ExecOptions& options,
                   std::stop_token stop);

}  // namespace berth::cli
