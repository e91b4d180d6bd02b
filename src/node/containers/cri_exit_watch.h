// Tells at once when processes end (pidfd), so that a container's exit needs no polling of the
// runtime.
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

  // Watches `pid` under `key`; a key that is watched already is left alone. A process that is gone
  // is reported at once. Pids of another pid namespace must not be given.
  void Watch(const std::string& key, pid_t pid);

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
