// The time that a container which ends again and again must wait before it is started again:
// nothing the first time, then 10 s, and twice the last time up to 5 min. The time begins at the
// container's exit. It starts from 10 s again if the container ended more than 10 min after its
// last start. Not thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>

namespace berth::node {

class CrashBackoff {
 public:
  // The time that is left to wait; zero: the container may start now. `exit` (the time of the last
  // exit) and `now` are ns since the epoch; an `exit` of 0 means that the container never ran.
  std::chrono::milliseconds TimeLeft(const std::string& container, int64_t exit, int64_t now) const;
  // The whole time of the present wait, for messages; zero: there was none.
  std::chrono::seconds FullDelay(const std::string& container) const;
  // Notes that the container is started again after the exit at `exit`.
  void NoteStart(const std::string& container, int64_t exit, int64_t now);

 private:
  struct Entry {
    std::chrono::nanoseconds delay{0};
    int64_t updated = 0;
  };
  static bool IsExpired(const Entry& entry, int64_t exit);
  std::map<std::string, Entry> entries_;
};

}  // namespace berth::node
