// Functions that wait, and end early when a stop is requested.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <stop_token>

namespace berth::base {

// Sleeps for `time`, or until `stop` is requested. Returns false if a stop was requested.
inline bool SleepFor(const std::stop_token& stop, std::chrono::milliseconds time) {
  std::mutex mutex;
  std::condition_variable_any changed;
  std::unique_lock lock(mutex);
  changed.wait_for(lock, stop, time, [] { return false; });
  return !stop.stop_requested();
}

inline void WaitForStop(const std::stop_token& stop) {
  while (SleepFor(stop, std::chrono::hours(1))) {
  }
}

}  // namespace berth::base
