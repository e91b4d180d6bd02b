// Waits that a requested stop ends early.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <stop_token>

namespace berth::roles {

// Sleeps for `time`, or until `stop` is requested. Returns false if it was requested.
inline bool Pause(const std::stop_token& stop, std::chrono::milliseconds time) {
  std::mutex mutex;
  std::condition_variable_any changed;
  std::unique_lock lock(mutex);
  changed.wait_for(lock, stop, time, [] { return false; });
  return !stop.stop_requested();
}

inline void PauseUntil(const std::stop_token& stop) {
  while (Pause(stop, std::chrono::hours(1))) {
  }
}

}  // namespace berth::roles
