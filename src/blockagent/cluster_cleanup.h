// When a StorageCluster is being deleted, forces its volumes off this node, and reports that in the
// cluster's status. The operator removes its finalizer from the cluster once every node is clean or
// provably gone.
//
//   deleting ─▶ each volume of it on record, side by side: forced off, again until it is
//            ─▶ status.nodes[NODE]: Cleaning, with each volume ─▶ Clean
//
// If a back end hangs, only the volumes that need it wait, and each of their steps has a deadline.
// While a cluster is being deleted, no volume of it is mounted again (attachments_mount.cc).
//
// Thread-safe. `client` and `attachments` are borrowed and must outlive the object.
#pragma once

#include <map>
#include <string>

#include "base/mutex.h"
#include "base/status.h"
#include "base/workers/keyed_workers.h"
#include "blockagent/attachments.h"
#include "kube/client.h"

namespace berth::blockagent {

class ClusterCleanup {
 public:
  ClusterCleanup(std::string node, kube::Client& client, Attachments& attachments);
  ~ClusterCleanup() { Stop(); }

  void Start();
  // Waits for running work. Idempotent.
  void Stop();
  // Call this when a cluster appears or changes. A cluster that is not being deleted is ignored.
  void QueueCluster(const std::string& cluster) { clusters_.AddNow(cluster); }

 private:
  struct Result {
    std::string cluster;
    std::string state;  // Forced, Failed; empty: no attempt has ended yet
    std::string message;
    std::chrono::milliseconds patience{0};
  };

  base::KeyedWorkers::Outcome CleanUpCluster(const std::string& name);
  base::KeyedWorkers::Outcome ForceVolumeOff(const std::string& volume);
  base::Status ReportCleanup(const api::StorageCluster& cluster, bool clean);

  const std::string node_;
  kube::Client& client_;
  Attachments& attachments_;
  base::Mutex mutex_;
  std::map<std::string, Result> results_ ABSL_GUARDED_BY(mutex_);  // by volume
  base::KeyedWorkers clusters_;
  base::KeyedWorkers volumes_;
};

}  // namespace berth::blockagent
