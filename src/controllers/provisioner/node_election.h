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
  std::chrono::milliseconds GetWait(const std::string& uid, Time now) ABSL_LOCKS_EXCLUDED(mutex_);
  // How long this node still waits because its last try failed; 0: no try failed, or that was long
  // enough ago.
  std::chrono::milliseconds WaitAfterLoss(const std::string& uid, Time now) const
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Notes that the try failed: another node's write came first, this node cannot have the volume,
  // or its driver refused. Returns the time until the next try, which is longer.
  std::chrono::milliseconds NoteLoss(const std::string& uid, Time now) ABSL_LOCKS_EXCLUDED(mutex_);
  // To be called when another node is selected, or the claim is bound or gone. As long as the claim
  // is this node's, the losses count, because the node may give the claim back.
  void Forget(const std::string& uid) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Turn {
    Time due;
    int losses = 0;
  };

  const std::chrono::milliseconds base_delay_;
  const std::chrono::milliseconds max_delay_;
  mutable base::Mutex mutex_;
  std::map<std::string, Turn> turns_ ABSL_GUARDED_BY(mutex_);
  std::minstd_rand random_ ABSL_GUARDED_BY(mutex_){std::random_device{}()};
};

}  // namespace berth::controllers::provisioner
