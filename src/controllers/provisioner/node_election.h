// When a node's provisioner tries to take a claim that no node is selected for (provisioner.h, node
// deployment): all nodes see the claim at once, so each waits a random time first, and longer after
// each try that another's write overtook. Thread-safe.
#pragma once

#include <chrono>
#include <map>
#include <random>
#include <string>

#include "base/mutex.h"

namespace berth::controllers::provisioner {

class NodeElection {
 public:
  using Time = std::chrono::steady_clock::time_point;

  NodeElection(std::chrono::milliseconds base_delay, std::chrono::milliseconds max_delay)
      : base_delay_(base_delay), max_delay_(max_delay) {}

  // How long this node still waits with the claim of that uid; 0: it is its turn.
  std::chrono::milliseconds Wait(const std::string& uid, Time now) ABSL_LOCKS_EXCLUDED(mutex_);
  // The try was in vain: the next one is later. Returns when.
  std::chrono::milliseconds Lost(const std::string& uid, Time now) ABSL_LOCKS_EXCLUDED(mutex_);
  // A node is selected, or the claim is gone.
  void Forget(const std::string& uid) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Turn {
    Time due;
    int losses = 0;
  };

  const std::chrono::milliseconds base_delay_;
  const std::chrono::milliseconds max_delay_;
  base::Mutex mutex_;
  std::map<std::string, Turn> turns_ ABSL_GUARDED_BY(mutex_);
  std::minstd_rand random_ ABSL_GUARDED_BY(mutex_){std::random_device{}()};
};

}  // namespace berth::controllers::provisioner
