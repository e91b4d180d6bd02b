// Decides when a node's provisioner tries to take a claim for which no node is selected, in a node
// deployment (options.h). All nodes see the claim at once, so each waits a random time first, and
// waits longer after each try in which another node's write came first. Thread-safe.
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

  // How long this node still waits before it tries to take the claim of that uid; 0: it may try
  // now. The first call for a claim chooses the wait at random.
  std::chrono::milliseconds Wait(const std::string& uid, Time now) ABSL_LOCKS_EXCLUDED(mutex_);
  // Notes that the try failed. Returns the time until the next try, which is longer.
  std::chrono::milliseconds Lost(const std::string& uid, Time now) ABSL_LOCKS_EXCLUDED(mutex_);
  // To be called when a node is selected, or the claim is gone.
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
