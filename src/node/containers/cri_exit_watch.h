// Reports the end of processes at once (pidfd), so that the runtime need not be polled for the exit
// of containers.
//
// Thread-safe. `on_exit` runs on the watch's thread.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <string>
#include <thread>

#include "base/mutex.h"
#include "base/status.h"
#include "base/unique_fd.h"

namespace berth::node {

class ExitWatch {
 public:
  using OnExit = std::function<void(const std::string& key)>;

  ExitWatch() = default;
  ~ExitWatch() { Stop(); }
  base::Status Start(OnExit on_exit);
  void Stop();

  // Watches `pid` under `key`; does nothing if the key is watched already. If the process is gone,
  // `on_exit` is called at once, on this thread. `pid` must be of this process's pid namespace. A
  // process that cannot be watched is ignored, because listing finds its exit later.
  void WatchProcess(const std::string& key, pid_t pid);

 private:
  void Loop();

  OnExit on_exit_;
  base::UniqueFd epoll_;
  base::UniqueFd stop_event_;
  base::Mutex mutex_;
  std::map<std::string, base::UniqueFd> watched_ ABSL_GUARDED_BY(mutex_);
  std::map<int, std::string> keys_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace berth::node
