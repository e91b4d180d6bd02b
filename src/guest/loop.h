// The event loop of berth-guest: descriptors that are ready, and child processes that have ended.
//
// Everything runs on one thread, and no callback may block: what can block runs in a child process.
// The loop reaps every child of process 1, also those that other processes left behind. Callbacks
// may add and remove watches, also their own.
#pragma once

#include <poll.h>
#include <sys/types.h>

#include <functional>
#include <map>
#include <memory>

#include "base/unique_fd.h"

namespace berth::guest {

class Loop {
 public:
  // Blocks SIGCHLD and SIGIO for this process. A child calls ResetSignals.
  Loop();

  // Calls `ready` with the events of poll(2) whenever `fd`, which is borrowed, has one of `events`,
  // or an error or hang-up. Replaces an earlier watch of `fd`.
  void Watch(int fd, short events, std::function<void(short)> ready);
  void Unwatch(int fd) { watches_.erase(fd); }
  // Calls `ended` once, with the wait status, when the child has ended.
  void OnChildEnd(pid_t child, std::function<void(int status)> ended) {
    children_[child] = std::move(ended);
  }
  // Calls `changed` at each SIGIO.
  void OnSigIo(std::function<void()> changed) { sigio_ = std::move(changed); }

  // Never returns.
  [[noreturn]] void Run();

  // Gives a child process the signals that a program expects.
  static void ResetSignals();

 private:
  struct Entry {
    short events = 0;
    std::function<void(short)> ready;
  };
  void ReadSignals();
  void ReapChildren();

  base::UniqueFd signals_;
  std::map<int, std::shared_ptr<Entry>> watches_;
  std::map<pid_t, std::function<void(int)>> children_;
  std::function<void()> sigio_;
};

}  // namespace berth::guest
