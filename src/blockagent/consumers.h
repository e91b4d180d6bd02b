// Finds out what is known of the consumer that an entry of a fence names (fence_rules.h).
//
// A lease counts as expired once this process saw it unchanged, or absent, for as long as it
// promises, and at least for a time of its own: clocks of other machines are not believed, and a
// Node that is deleted takes its Lease along though its machine may run. Each consumer is watched
// by itself, since whoever came after an earlier death of the node shows that it was back; a node
// that was seen in between, or that nobody asked about for long, is watched anew.
//
// Thread-safe. Borrows the client.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <string>

#include "base/mutex.h"
#include "blockagent/fence_rules.h"
#include "kube/client.h"

namespace berth::blockagent {

// Longer than the 40 seconds for which Kubernetes leaves a silent node its word.
inline constexpr std::chrono::seconds kLeaseTime{45};

class Consumers {
 public:
  using Time = std::chrono::steady_clock::time_point;
  struct Options {
    std::chrono::milliseconds lease_time = kLeaseTime;  // the least
    std::function<Time()> now = std::chrono::steady_clock::now;
  };
  // Asks the back end whether the node is shut out, or holds a lock; may take long.
  using AskBackend = std::function<BackendFact(const std::string& node)>;

  explicit Consumers(kube::Client& client) : Consumers(client, Options()) {}
  Consumers(kube::Client& client, Options options)
      : client_(client), options_(std::move(options)) {}

  // `controller_uid` is that of the pod that wants in; empty: it has none.
  ConsumerFacts Find(const std::string& volume, const api::FenceEntry& old,
                     const std::string& controller_uid, const AskBackend& ask_backend);

 private:
  struct Seen {
    std::string state;
    Time since;
    Time asked;
    // The longest that its Lease, when there was one, had to be left alone for.
    std::chrono::milliseconds promised{0};
  };

  PodFact FindPod(const api::FenceEntry& old, const std::string& controller_uid, std::string& note);
  NodeFact FindNode(const std::string& node, const std::string& use, std::string& note)
      ABSL_LOCKS_EXCLUDED(mutex_);
  LeaseFact FindLease(const std::string& node, const std::string& use, std::string& note)
      ABSL_LOCKS_EXCLUDED(mutex_);

  kube::Client& client_;
  const Options options_;
  base::Mutex mutex_;
  std::map<std::string, Seen> watched_ ABSL_GUARDED_BY(mutex_);  // by volume, node and pod
};

// Whether the pod of that name is another one by now, or none. Any other failure than NOT_FOUND is
// given.
base::StatusOr<bool> IsPodGone(kube::Client& client, const api::FenceEntry& entry);

}  // namespace berth::blockagent
