// Runs a command in a pod's container, over a WebSocket (subprotocols v5 and v4.channel.k8s.io), as
// `kubectl exec` does.
#pragma once

#include <functional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "kube/config.h"

namespace berth::kube {

struct ExecRequest {
  std::string ns;
  std::string pod;
  std::string container;  // empty: the pod's only container
  std::vector<std::string> command;
  bool tty = false;
};

struct ExecStreams {
  int stdin_fd = -1;  // -1: the command gets no standard input
  // Called on the thread of ExecInPod with each part of the output. Empty: the output is dropped.
  std::function<void(std::string_view)> on_stdout;
  std::function<void(std::string_view)> on_stderr;
  // Returns the columns and rows of the terminal. Called at the start and at each SIGWINCH, but
  // only with a tty.
  std::function<std::pair<int, int>()> terminal_size;
  // Called once if the end of standard input cannot be passed on, because the server speaks only
  // v4.
  std::function<void()> on_stdin_end_lost;
};

// Blocks until the command ends, and returns its exit code. CANCELLED: `stop` was requested.
// UNAVAILABLE: there is no connection, or it broke and the command may still run. INVALID_ARGUMENT:
// the server in `config` is not an https:// address, or the credentials are wrong. NOT_FOUND,
// INTERNAL: the server refused the request or could not run the command.
base::StatusOr<int> ExecInPod(const Config& config, const ExecRequest& request,
                              const ExecStreams& streams, std::stop_token stop);

}  // namespace berth::kube
