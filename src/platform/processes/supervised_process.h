// Keeps a child process running as long as the object lives, and starts it again when it ends. If
// this process ends, even by SIGKILL, the kernel kills the child.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"

namespace berth::platform {

class SupervisedProcess {
 public:
  struct Options {
    std::string name;               // for the log
    std::vector<std::string> argv;  // argv[0] is an absolute path
    // The first pause before the child is started again. The pause doubles each time, up to
    // restart_max, until the child has run for more than ten seconds.
    std::chrono::milliseconds restart_start{200};
    std::chrono::milliseconds restart_max{10000};
    std::chrono::milliseconds stop_timeout{5000};  // from SIGTERM to SIGKILL
  };

  // Starts the child on a thread of this object.
  explicit SupervisedProcess(Options options);
  // Sends SIGTERM, and SIGKILL after the time-out; waits for the end.
  ~SupervisedProcess();

 private:
  void SuperviseChild(const std::stop_token& stop);
  // Runs the child once, until it ends; returns how it ended, as a text for the log.
  std::string RunOnce(const std::stop_token& stop);

  const Options options_;
  std::jthread thread_;
};

}  // namespace berth::platform
