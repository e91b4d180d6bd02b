// SIGINT and SIGTERM as a std::stop_token.
#pragma once

#include <stop_token>
#include <thread>

namespace berth::cmd {

// Must be made before other threads start, so that they inherit the blocked signals.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  std::stop_token token() const { return source_.get_token(); }
  // Blocks until a signal came.
  void Wait();

 private:
  std::stop_source source_;
  std::jthread thread_;
};

}  // namespace berth::cmd
