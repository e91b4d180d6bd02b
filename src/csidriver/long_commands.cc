#include "csidriver/long_commands.h"

namespace berth::csidriver {
namespace {

constexpr std::chrono::minutes kLong{10};
// Most checks take some milliseconds, so that many pods that start at once seldom see a refusal.
// The wait is short, because it holds a worker.
constexpr std::chrono::milliseconds kPatience{500};

}  // namespace

base::StatusOr<platform::CommandResult> LongCommandLimit::Run(const platform::Command& command) {
  if (command.timeout < kLong) return exec_.Run(command);
  const base::Semaphore::Permit permit = running_.Acquire(kPatience);
  if (permit != nullptr) return exec_.Run(command);
  return base::Error(base::StatusCode::kUnavailable,
                     "{} has to wait, because {} checks or growths of file systems already run, "
                     "which is the most at once: try again later",
                     command.argv.empty() ? "a command" : command.argv[0], limit_);
}

}  // namespace berth::csidriver
