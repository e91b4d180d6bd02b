// Removes pods that no other program will remove (in Kubernetes: the pod garbage collector).
//
//   pod on a node that is gone       ── 40 s, then the API itself says so ────▶ Failed, deleted
//   pod being deleted, on a node     ── not ready and tainted out-of-service ─▶ Failed, deleted
//   pod being deleted, on no node    ─────────────────────────────────────────▶ Failed, deleted
//   ended pods above the threshold   ── evicted ones, then the oldest ────────▶ deleted
//
// All these deletes have no grace period, because no node agent exists to end the pod, or none is
// needed. By the taint out-of-service a person states that the machine runs nothing any more.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "api/kinds/kinds.h"
#include "base/mutex.h"
#include "base/workers/keyed_workers.h"
#include "controllers/controller.h"
#include "controllers/pod_deletion.h"

namespace berth::controllers::podgc {

struct Options {
  // How many ended pods are kept; 0: all.
  size_t terminated_threshold = 12500;
  // How long a node must have been missing before the API is asked whether it is gone. The wait
  // lets a node that registers anew keep its pods. It begins anew when the node was there in
  // between.
  std::chrono::milliseconds quarantine = std::chrono::seconds(40);
  // The shortest time between two counts of the ended pods.
  std::chrono::milliseconds count_interval = std::chrono::seconds(20);
};

class PodGc : public Controller {
 public:
  explicit PodGc(Context context, Options options = {});
  ~PodGc() override;

  std::string_view name() const override { return "podgc"; }
  void Start() override;
  void Stop() override;

 private:
  using Outcome = base::KeyedWorkers::Outcome;
  using SteadyTime = std::chrono::steady_clock::time_point;

  void AddHandlers();
  // A key is "namespace/name" of a pod, the name of a node, or kEndedPods.
  Outcome SyncKey(const std::string& key);
  Outcome SyncPod(const std::string& key);
  Outcome SyncNode(const std::string& name);
  Outcome SyncEndedPods();
  bool IsOutOfService(const std::string& node) const;
  // Writes the phase Failed, and `disruption` if it has a reason, and deletes the pod. `why` goes
  // to the log.
  base::Status RemovePod(const api::Pod& pod, std::string_view why,
                         const Disruption& disruption = {});
  // Ends the absence of a node that is there again or has no pods. A later absence begins anew.
  void ForgetMissing(const std::string& node) ABSL_LOCKS_EXCLUDED(mutex_);

  const Context context_;
  const Options options_;
  kube::Informer<api::Pod>& pods_;
  kube::Informer<api::Node>& nodes_;
  base::Mutex mutex_;
  // Since when the nodes that still have pods are missing, by name.
  std::map<std::string, SteadyTime> missing_since_ ABSL_GUARDED_BY(mutex_);
  base::KeyedWorkers workers_;
};

}  // namespace berth::controllers::podgc
