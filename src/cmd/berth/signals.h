// Turns SIGINT and SIGTERM into a std::stop_token.
#pragma once

#include <stop_token>
#include <thread>

namespace berth::cmd {

// Construct it before other threads start, so that they inherit the blocked signals. It also
// ignores SIGPIPE. The first signal requests the stop; a second one ends the process.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  std::stop_token token() const { return source_.get_token(); }
  // Blocks until a signal has come.
  void Wait();

 private:
  std::stop_source source_;
  std::jthread thread_;
};

}  // namespace berth::cmd
