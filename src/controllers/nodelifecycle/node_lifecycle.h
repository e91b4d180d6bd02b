// Watches nodes (in Kubernetes: the node life-cycle and taint-eviction controllers). It marks nodes
// that do not answer, taints marked nodes, and deletes pods that do not tolerate the taint.
//
//   [ready] ── no sign of life for 40 s, and the API itself says so, too ──▶ Ready=Unknown ──┐
//   [Ready=False by its own word] ───────────────────────────────────────────────────────────┤
//                                                                                            ▼
//      deleted ◀── each pod's tolerationSeconds pass ◀────── NoSchedule taint at once, NoExecute
//                  (300 by admission)                        taint as the rate allows
//   [Ready=True again] ── all these taints off at once; pods that still wait stay
//
// A sign of life is a renewed lease or a written status.
//
// No node is marked because this process stood still or the API was away:
//   - a node's 40 s count from when this process saw its last sign of life, not by timestamps;
//   - before a node is marked, its lease and status are read from the API itself;
//   - a check that comes late by more than `late` (the process was stopped, the API did not answer)
//     gives every node its 40 s anew;
//   - when no node at all is ready, no pods are evicted and the NoExecute taints are removed; in a
//     zone that is mostly down, pods are evicted only slowly (disruption.h);
//   - before a pod is evicted, its node is read from the API itself.
//
// spec.unschedulable and pressure conditions become NoSchedule taints the same way.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "api/kinds/kinds.h"
#include "base/mutex.h"
#include "base/workers/keyed_workers.h"
#include "controllers/controller.h"
#include "controllers/nodelifecycle/disruption.h"
#include "controllers/nodelifecycle/node_taints.h"

namespace berth::controllers::nodelifecycle {

struct Options {
  std::chrono::milliseconds grace = std::chrono::seconds(40);
  // For a node that has not written any status yet.
  std::chrono::milliseconds startup_grace = std::chrono::seconds(60);
  std::chrono::milliseconds late = std::chrono::seconds(10);
  // The longest time between two checks of a node; a test with its own `now` makes it short.
  std::chrono::milliseconds check_interval = std::chrono::seconds(5);
  std::function<std::chrono::steady_clock::time_point()> now = std::chrono::steady_clock::now;
};

class NodeLifecycle : public Controller {
 public:
  explicit NodeLifecycle(Context context, Options options = {});
  ~NodeLifecycle() override;

  std::string_view name() const override { return "nodelifecycle"; }
  void Start() override;
  void Stop() override;

 private:
  using Outcome = base::KeyedWorkers::Outcome;
  using SteadyTime = std::chrono::steady_clock::time_point;

  // A node's signs of life, as this process saw them.
  struct Health {
    std::string renewed;    // the lease's renewTime
    std::string heartbeat;  // the condition Ready's lastHeartbeatTime and status
    SteadyTime seen;        // when one of them last changed
    SteadyTime check_due;
    bool was_ready = false;
  };

  void AddHandlers();
  void NoteLease(const std::string& node, const std::string& renewed);
  void NoteStatus(const api::Node& node);
  void Forget(const std::string& node);

  // node_lifecycle.cc
  Outcome SyncNode(const std::string& name);
  Outcome WriteTaints(const api::Node& node);
  // Returns the eviction that the node may have now: `wanted`, for which a token of the zone is
  // taken if the node has no taint for eviction yet, or kNone. If the eviction must wait, sets
  // `again` to the time until the next call; else leaves it.
  Eviction AllowEviction(const api::Node& node, Eviction wanted, std::chrono::milliseconds& again);

  // health.cc
  // Notes the check of the node, and returns how long the node may stay silent from now on. Zero or
  // less: its time is up. A check that comes late gives all nodes their full time (Options::late).
  std::chrono::milliseconds TimeLeft(const api::Node& node);
  // Whether the node's time is up. It need not be marked yet, because nodes that fall silent
  // together must be counted together.
  bool IsSilent(const std::string& node) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Marks a node whose time is up, unless the API knows of a newer sign of life.
  base::Status MarkUnknown(const std::string& name);
  base::Status MarkPodsNotReady(const api::Node& node);
  // Records an event if the node was ready at the last call and is not ready now.
  void ReportTransition(const api::Node& node);

  // eviction.cc
  Outcome SyncPod(const std::string& key);
  Outcome Evict(const api::Pod& pod);
  // Ends the wait for the pod's eviction, with an event if there was one.
  void Cancel(const api::Pod& pod);

  const Context context_;
  const Options options_;
  kube::Informer<api::Node>& nodes_;
  kube::Informer<api::Lease>& leases_;
  kube::Informer<api::Pod>& pods_;

  base::Mutex mutex_;
  std::map<std::string, Health> health_ ABSL_GUARDED_BY(mutex_);           // by node
  std::map<std::string, SteadyTime> evict_since_ ABSL_GUARDED_BY(mutex_);  // by the pod's uid
  EvictionLimiter limiter_ ABSL_GUARDED_BY(mutex_);
  bool all_down_ ABSL_GUARDED_BY(mutex_) = false;
  base::KeyedWorkers node_workers_;
  base::KeyedWorkers pod_workers_;
};

}  // namespace berth::controllers::nodelifecycle
