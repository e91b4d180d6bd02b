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

namespace berth::controllers::podgc {

struct Options {
  // How many ended pods are kept; 0: all.
  size_t terminated_threshold = 12500;
  // How long a node must have been missing before the API is asked whether it is gone. The wait
  // lets a node that registers anew keep its pods.
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
  Outcome Sync(const std::string& key);
  Outcome SyncPod(const std::string& key);
  Outcome SyncNode(const std::string& name);
  Outcome SyncEndedPods();
  bool OutOfService(const std::string& node) const;

  const Context context_;
  const Options options_;
  kube::Informer<api::Pod>& pods_;
  kube::Informer<api::Node>& nodes_;
  base::Mutex mutex_;
  std::map<std::string, SteadyTime> missing_since_ ABSL_GUARDED_BY(mutex_);  // nodes, by name
  base::KeyedWorkers workers_;
};

}  // namespace berth::controllers::podgc
