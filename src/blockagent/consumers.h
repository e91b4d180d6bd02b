// Finds the facts about the consumer that an entry of a fence names (fence_rules.h).
//
// A Lease counts as expired once this process saw it unchanged, or absent, for the duration in the
// Lease and at least for Options::lease_time. This process measures the time itself, because the
// clocks of other machines may be wrong. A Lease must be absent that long, because it goes with its
// Node object although the machine may still run. Each consumer is watched separately, because a
// consumer that came after an earlier death of its node shows that the node was back. The watch
// begins again if the Node existed in between, or if Find was not called for the consumer for five
// minutes.
//
// Thread-safe. Borrows the client.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "api/kinds/kinds.h"
#include "api/kinds/object_ids.h"
#include "base/mutex.h"
#include "blockagent/fence_rules.h"
#include "kube/client.h"

namespace berth::blockagent {

// Longer than the 40 seconds after which Kubernetes declares a silent node unreachable.
inline constexpr std::chrono::seconds kLeaseTime{45};

class Consumers {
 public:
  using Time = std::chrono::steady_clock::time_point;
  struct Options {
    std::chrono::milliseconds lease_time = kLeaseTime;  // the least
    std::function<Time()> now = std::chrono::steady_clock::now;
  };
  // What the back end can say about a node that is gone.
  struct BackendAsked {
    bool fences_nodes = false;  // Backend::FencesNodes
    // Finds whether the image is locked. May take long. Not called if the back end fences nodes.
    std::function<BackendFact(const api::NodeName& node)> find_lock;
  };

  explicit Consumers(kube::Client& client) : Consumers(client, Options()) {}
  Consumers(kube::Client& client, Options options)
      : client_(client), options_(std::move(options)) {}

  // Finds the facts in the order pod, node, Lease, back end, and stops at the first that proves
  // nothing; so `find_lock` is called only for a node that is gone and silent. A failed read
  // of the API is a fact kUnknown, with the reason in `note`. `controller_uid` is the uid of the
  // controller of the pod that wants to use the volume; empty: it has none. Does not set
  // detach_confirmed.
  ConsumerFacts Find(const api::VolumeName& volume, const api::FenceEntry& old,
                     const std::string& controller_uid, const BackendAsked& backend);

 private:
  struct Seen {
    std::string state;  // of the Lease: its uid and renewTime, or "absent"
    Time since;         // when the Lease was first seen in that state
    Time asked;         // the last call of Find
    // The longest duration that the node's Lease named while there was one.
    std::chrono::milliseconds promised{0};
  };

  PodFact FindPod(const api::FenceEntry& old, const std::string& controller_uid, std::string& note);
  NodeFact FindNode(const api::NodeName& name, const std::string& use, std::string& note)
      ABSL_LOCKS_EXCLUDED(mutex_);
  LeaseFact FindLease(const api::NodeName& node, const std::string& use, std::string& note)
      ABSL_LOCKS_EXCLUDED(mutex_);

  kube::Client& client_;
  const Options options_;
  base::Mutex mutex_;
  std::map<std::string, Seen> watched_ ABSL_GUARDED_BY(mutex_);  // by volume, node and pod
};

// The pods on other nodes than `node` that show by their status that they have started with the
// claim of `volume` and have not ended, as entries of a fence. A pod that waits for its volumes has
// not started, and a pod whose node owes that it is taken off (its NodeCleanup) does not count.
base::StatusOr<std::vector<api::FenceEntry>> FindStartedPods(kube::Client& client,
                                                             const api::PersistentVolume& volume,
                                                             const std::string& node);

// Whether the entry's pod is gone: no pod has its name, or a pod with another uid has it. Failures
// other than NOT_FOUND are returned.
base::StatusOr<bool> IsPodGone(kube::Client& client, const api::FenceEntry& entry);

}  // namespace berth::blockagent
