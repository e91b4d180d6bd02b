// Places pods on nodes, by what their volumes need (a small kube-scheduler).
//
// A pod without node, of schedulerName default-scheduler:
//
//   [waiting] ── a node passes all filters ──▶ [reserved] ── all claims bound ──▶ POST binding
//      │ ▲  ▲                                     │
//      └─┘  │                                     │ claims that wait for their first consumer:
//     none  │                                     │ a volume by hand is given the claim, or the
//           │                                     │ claim gets selected-node for its provisioner
//           └─────────────────────────────────────┘ the provisioner removed selected-node again:
//                                                   another node first, after a pause
//
// Where no node passes, event FailedScheduling and PodScheduled=False/Unschedulable say why, and
// the pod is tried again when something has changed that may help.
//
// Filters: ready, schedulable, taints, nodeSelector, required node affinity; the node affinity of
// bound volumes; for claims that wait, a fitting free volume, or a provisioner whose allowed
// topologies and CSIStorageCapacity (if the driver publishes it) fit, and where the volume or
// snapshot is that the new one is to be filled from; CSINode's attach limit; ReadWriteOncePod.
// Among nodes that pass: one that did not fail for this pod, then fewest pods, then first by name.
// Requests for CPU and memory are not considered.
//
// Pods that have a node are not changed. A HostMount has its node; if its claim waits for a
// consumer, that node is selected. One worker places pods, one after the other, so that each sees
// the one before.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "api/kinds/kinds.h"
#include "api/kinds/object_ids.h"
#include "base/mutex.h"
#include "base/workers/keyed_workers.h"
#include "controllers/controller.h"
#include "controllers/scheduler/node_filters.h"

namespace berth::controllers::scheduler {

struct Options {
  // Whether HostMounts count as users of claims. False if the API does not serve that kind.
  bool host_mounts = true;
  // The pause after a node could not get a pod's volume; doubles with each up to the second.
  std::chrono::milliseconds retry_start{1000};
  std::chrono::milliseconds retry_max{30000};
};

class Scheduler : public Controller {
 public:
  explicit Scheduler(Context context, Options options = {});
  ~Scheduler() override;

  std::string_view name() const override { return "scheduler"; }
  void Start() override;
  void Stop() override;

 private:
  using Outcome = base::KeyedWorkers::Outcome;
  using Claim = api::PersistentVolumeClaim;
  using Volume = api::PersistentVolume;
  using ClaimPtr = std::shared_ptr<const Claim>;
  using VolumePtr = std::shared_ptr<const Volume>;

  // A pod on its way to a node.
  struct Progress {
    std::string node;                         // reserved; "" if none
    bool bound = false;                       // the binding is written
    std::map<std::string, int> failed_nodes;  // where its volume could not be made, how often
    int failures = 0;
    std::chrono::steady_clock::time_point not_before;
  };
  // The source from which a claim's volume is filled: a volume, or the node that took a snapshot.
  // Neither if the volume begins empty, or the source is not known.
  struct Source {
    VolumePtr volume;
    std::string node;
    std::string driver;
  };
  // The claims of a pod.
  struct PodClaims {
    std::vector<VolumePtr> bound;
    std::vector<ClaimPtr> unbound;          // that wait for their first consumer
    std::map<std::string, Source> sources;  // of unbound ones, by their keys
  };
  // The unbound claims of a pod, each with the volume that it gets; null: its provisioner makes
  // one.
  using Placement = std::vector<std::pair<ClaimPtr, VolumePtr>>;

  void AddHandlers();
  void RetryWaiting();
  void NoteClaimChange(const Claim* before, const Claim* after);
  Progress ProgressOf(const std::string& uid) const ABSL_LOCKS_EXCLUDED(mutex_);

  // schedule.cc
  Outcome SyncPod(const std::string& key);
  std::optional<std::string> ChooseNode(const api::Pod& pod, const PodClaims& claims,
                                        const Progress& progress, Refusals& refusals,
                                        Placement& placement);
  size_t PodsOn(const std::string& node) const;
  Outcome Reserve(const api::Pod& pod, const std::string& node, const Placement& placement);
  Outcome BindPod(const api::Pod& pod, const std::string& node);
  Outcome ReportUnschedulable(const api::Pod& pod, const std::string& message);
  Outcome SyncHostMount(const std::string& key);

  // volume_filters.cc
  // FAILED_PRECONDITION: no node can help as things are, for the reason in the message.
  base::StatusOr<PodClaims> ClaimsOf(const api::Pod& pod) const;
  bool UsedByAnotherPod(const Claim& claim, const api::Pod& pod) const;
  // nullopt: the pod's volumes can be used on the node, as `placement` says.
  std::optional<std::string> RefuseVolumes(const api::Pod& pod, const PodClaims& claims,
                                           const api::Node& node, Placement& placement) const;
  std::optional<std::string> RefuseProvisioning(const Claim& claim,
                                                const api::StorageClass& storage_class,
                                                const api::Node& node) const;
  bool HasCapacity(const Claim& claim, const api::StorageClass& storage_class,
                   const api::Node& node) const;
  // The driver of a claim's volume, which exists or will be made; "" if there is none.
  std::string DriverOf(const Claim& claim) const;
  // Why the node is refused, because a driver with CSIDriver.spec.preventPodSchedulingIfMissing
  // does not run there. nullopt: the node is not refused.
  std::optional<std::string> RefuseWithoutDriver(const PodClaims& claims,
                                                 const Placement& placement,
                                                 const api::Node& node) const;
  bool ExceedsAttachLimit(const PodClaims& claims, const Placement& placement,
                          const api::Node& node) const;
  std::set<std::string> VolumesOn(const api::NodeName& node, const std::string& driver) const;
  // The name under which a claim's volume counts for `driver`'s limit; "" if it belongs to another
  // driver.
  std::string CountedAs(const Claim& claim, const std::string& driver) const;
  base::Status PlaceClaim(const Claim& claim, const Volume* volume, const std::string& node);

  // source_filter.cc
  Source ReadSource(const Claim& claim) const;
  bool ReachesSource(const Source& source, const api::Node& node) const;

  const Context context_;
  const Options options_;
  kube::Informer<api::Pod>& pods_;
  kube::Informer<api::Node>& nodes_;
  kube::Informer<Claim>& claims_;
  kube::Informer<Volume>& volumes_;
  kube::Informer<api::StorageClass>& classes_;
  kube::Informer<api::CsiNode>& csi_nodes_;
  kube::Informer<api::CsiDriver>& drivers_;
  kube::Informer<api::CsiStorageCapacity>& capacities_;
  kube::Informer<api::VolumeAttachment>& attachments_;
  kube::Informer<api::HostMount>* const host_mounts_;  // nullptr: HostMounts do not count

  mutable base::Mutex mutex_;
  std::map<std::string, Progress> progress_ ABSL_GUARDED_BY(mutex_);  // by the pod's uid
  std::set<std::string> waiting_ ABSL_GUARDED_BY(mutex_);  // keys of pods that no node suits
  base::KeyedWorkers pod_workers_;
  base::KeyedWorkers mount_workers_;
};

}  // namespace berth::controllers::scheduler
