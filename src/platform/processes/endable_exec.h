// The runs of a role that ends before its process does: at the end of its term, for example.
#pragma once

#include <functional>
#include <stop_token>
#include <utility>

#include "platform/processes/exec.h"

namespace berth::platform {

// Runs each command where another Exec runs it, until EndRuns. Thread-safe.
class EndableExec : public Exec {
 public:
  // `choose` gives the Exec of a run, which must outlive the run.
  explicit EndableExec(std::function<Exec&()> choose) : choose_(std::move(choose)) {}

  base::StatusOr<CommandResult> Run(const Command& command) override {
    Command endable = command;
    endable.ending = end_.get_token();
    return choose_().Run(endable);
  }
  // Ends the running Runs and each later one with CANCELLED, as Command::ending says. Returns at
  // once.
  void EndRuns() { end_.request_stop(); }

 private:
  const std::function<Exec&()> choose_;
  std::stop_source end_;
};

}  // namespace berth::platform
