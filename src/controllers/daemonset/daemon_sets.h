// Keeps a pod on every node that a DaemonSet selects (in Kubernetes: the DaemonSet controller).
//
// For a set, in its own serial queue:
//
//   its pods and revisions: those that it controls; orphans that its selector matches are adopted,
//        what it does not match any more is released                           (claiming.cc)
//   its template as a ControllerRevision, named and labelled by a hash          (history.cc)
//   a pod on each node where one belongs, none elsewhere, the newest revision   (rollout.h)
//   revisions beyond the history limit are deleted, and the status is written   (status.cc)
//
// Pods are pinned to their node, and the scheduler places them. A failed pod is replaced after a
// pause that doubles while its successors on the node fail, too. What this controller writes goes
// into its informers at once, so that the next sync sees it; pods that it deleted count as leaving.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "api/kinds/kinds.h"
#include "api/kinds/object_ids.h"
#include "base/mutex.h"
#include "base/workers/keyed_workers.h"
#include "controllers/controller.h"
#include "controllers/daemonset/rollout.h"

namespace berth::controllers::daemonset {

struct Options {
  // The pause before a failed pod is replaced.
  std::chrono::milliseconds failed_start = std::chrono::seconds(1);
  std::chrono::milliseconds failed_max = std::chrono::minutes(15);
};

class DaemonSets : public Controller {
 public:
  explicit DaemonSets(Context context, Options options = {});
  ~DaemonSets() override;

  std::string_view name() const override { return "daemonset"; }
  void Start() override;
  void Stop() override;

 private:
  using Outcome = base::KeyedWorkers::Outcome;
  using Set = api::DaemonSet;
  using Revision = api::ControllerRevision;
  using RevisionPtr = std::shared_ptr<const Revision>;
  using SteadyTime = std::chrono::steady_clock::time_point;

  struct History {
    RevisionPtr current;
    std::vector<RevisionPtr> old;  // by revision, the oldest first
  };
  struct FailedBackoff {
    std::chrono::milliseconds pause{0};
    SteadyTime since;
  };

  void AddHandlers();
  void AddOwner(const api::Object& object);

  // daemon_sets.cc
  Outcome Sync(const std::string& key);
  base::StatusOr<std::chrono::milliseconds> Reconcile(const Set& set);
  Nodes NodesOf(const Set& set, const std::vector<PodPtr>& pods) const;
  base::Status CarryOutPlan(const Set& set, const Plan& plan, const std::string& hash,
                            std::chrono::milliseconds& again);
  base::Status CreatePod(const Set& set, const api::NodeName& node, const std::string& hash);
  base::Status DeletePod(const Set& set, const api::Pod& pod);
  // How long a failed pod stays before it is replaced. Zero: it must be replaced now; then the next
  // pause on the node begins, which is longer.
  std::chrono::milliseconds FailedPause(const Set& set, const std::string& node);

  // claiming.cc
  base::StatusOr<std::vector<PodPtr>> ClaimPods(const Set& set);
  base::StatusOr<std::vector<RevisionPtr>> ClaimRevisions(const Set& set);
  template <typename T>
  base::StatusOr<std::vector<std::shared_ptr<const T>>> Claim(const Set& set,
                                                              kube::Informer<T>& informer);
  // OK if the API still has the set under this uid, and it is not being deleted. ABORTED: it is
  // being deleted, or another set has the name. Other errors come from the API.
  base::Status CheckMayAdopt(const Set& set);

  // history.cc
  // Returns the revisions of the set, and creates the current one if it is missing.
  base::StatusOr<History> FindHistory(const Set& set);
  base::StatusOr<RevisionPtr> CreateRevision(const Set& set, const base::Json& data,
                                             int64_t revision);
  // Labels the pods of the twins like those of `kept`, and deletes the twins.
  base::Status MergeTwins(const Set& set, const Revision& kept,
                          const std::vector<RevisionPtr>& twins);
  // Deletes the oldest revisions above the history limit that no pod has.
  base::Status CutHistory(const Set& set, const History& history, const std::vector<PodPtr>& pods);

  // status.cc
  base::Status WriteStatus(const Set& set, const Nodes& nodes, const std::string& hash);

  const Context context_;
  const Options options_;
  kube::Informer<Set>& sets_;
  kube::Informer<Revision>& revisions_;
  kube::Informer<api::Pod>& pods_;
  kube::Informer<api::Node>& nodes_;
  mutable base::Mutex mutex_;
  std::set<std::string> leaving_ ABSL_GUARDED_BY(mutex_);  // uids of pods that were deleted here
  std::map<std::string, FailedBackoff> failed_ ABSL_GUARDED_BY(mutex_);  // by set's uid and node
  base::KeyedWorkers workers_;
};

}  // namespace berth::controllers::daemonset
