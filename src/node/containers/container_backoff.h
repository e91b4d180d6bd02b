// How long a container that keeps ending must wait before it is started again: nothing the first
// time, then 10 s, doubling to 5 min, counted from its exit; forgotten after it ran for 10 minutes.
// Not thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>

namespace berth::node {

class CrashBackoff {
 public:
  // The wait that is left; zero means that the container may start now. Times are ns since the
  // epoch; an `exit` of 0 means that the container never ran.
  std::chrono::milliseconds Wait(const std::string& container, int64_t exit, int64_t now) const;
  // The whole wait of this turn, for messages.
  std::chrono::seconds Delay(const std::string& container) const;
  // Notes that the container is started again after the exit at `exit`.
  void Started(const std::string& container, int64_t exit, int64_t now);

 private:
  struct Entry {
    std::chrono::nanoseconds delay{0};
    int64_t updated = 0;
  };
  static bool Expired(const Entry& entry, int64_t exit);
  std::map<std::string, Entry> entries_;
};

}  // namespace berth::node
