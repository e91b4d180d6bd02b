// A child process that runs as long as its owner: it is started again when it ends, and is ended
// when the owner ends, even by SIGKILL.
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
    std::chrono::milliseconds restart_start{
        200};  // doubles with each end within ten seconds of a start
    std::chrono::milliseconds restart_max{10000};
    std::chrono::milliseconds stop_timeout{5000};  // from SIGTERM to SIGKILL
  };

  explicit SupervisedProcess(Options options);
  // Sends SIGTERM, and SIGKILL after the time-out; waits for the end.
  ~SupervisedProcess();

 private:
  void Supervise(const std::stop_token& stop);
  // Runs it once, until it ends; returns its exit as text.
  std::string RunOnce(const std::stop_token& stop);

  const Options options_;
  std::jthread thread_;
};

}  // namespace berth::platform
