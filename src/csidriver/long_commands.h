// Bounds how many of the node's workers run commands that may take long, so that other calls of the
// node find a worker.
#pragma once

#include <chrono>

#include "base/workers/semaphore.h"
#include "platform/processes/exec.h"

namespace berth::csidriver {

// Runs at most `limit` commands at once that may take ten minutes or longer: checks and growths of
// file systems, whose time depends on what a tenant wrote. Thread-safe.
class LongCommandLimit final : public platform::Exec {
 public:
  // `exec` is borrowed.
  LongCommandLimit(platform::Exec& exec, size_t limit) : exec_(exec), limit_(limit) {}

  // UNAVAILABLE: others run, and none of them ended soon. The command did not begin.
  base::StatusOr<platform::CommandResult> Run(const platform::Command& command) override;

 private:
  platform::Exec& exec_;
  const size_t limit_;
  base::Semaphore running_{limit_};
};

}  // namespace berth::csidriver
