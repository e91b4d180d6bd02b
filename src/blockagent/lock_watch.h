// Lets this node and others see each other's locks in the back ends of all StorageClusters
// (Backend::ExchangeLocks), so that the absence of a lock proves something when a node dies.
//
// A cluster's locks are exchanged when the cluster changes, when a fence of it names another node,
// and each `resync`. If the locks of its back end do not reach other nodes, an event of the
// StorageCluster says so once, as it does if the back end has no room to exchange them. When the
// cluster is gone, the lock of this node is removed.
//
// Thread-safe. The references are borrowed.
#pragma once

#include <chrono>
#include <map>
#include <string>

#include "api/kinds/block_kinds.h"
#include "base/event_sink.h"
#include "base/mutex.h"
#include "base/workers/keyed_workers.h"
#include "blockagent/attachments.h"
#include "kube/informers/informer.h"

namespace berth::blockagent {

class LockWatch {
 public:
  struct Options {
    std::string node;
    std::chrono::milliseconds resync{60000};
  };

  LockWatch(Options options, base::EventSink& events, kube::Informer<api::StorageCluster>& clusters,
            Attachments& attachments);

  void Start() { clusters_queue_.Start(); }
  void Stop() { clusters_queue_.Stop(); }
  void QueueCluster(const std::string& cluster) { clusters_queue_.AddNow(cluster); }

 private:
  // What the locks were exchanged for.
  struct Shown {
    std::string uid;
    base::Json settings;
    std::string refusal;  // the last one that an event told
  };

  base::KeyedWorkers::Outcome ExchangeLocks(const std::string& name);
  void LeaveLocks(const std::string& name);

  const Options options_;
  base::EventSink& events_;
  kube::Informer<api::StorageCluster>& clusters_;
  Attachments& attachments_;
  base::Mutex mutex_;
  std::map<std::string, Shown> shown_ ABSL_GUARDED_BY(mutex_);  // by the cluster's name
  base::KeyedWorkers clusters_queue_;
};

}  // namespace berth::blockagent
