// Writes pod.status in the background: the newest status of each pod, if the API has a different
// one.
//
// Only the removal of a deleted pod waits until its status is written. After a conflict the pod is
// read again and the write is retried. The write is dropped if the pod is gone, or was replaced by
// another pod of its name. While the API is unreachable, writes are retried after a backoff.
// Thread-safe.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "api/kinds/kinds.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/workers/keyed_workers.h"
#include "kube/client.h"
#include "kube/informers/informer.h"

namespace berth::node {

class PodStatusWriter {
 public:
  // All borrowed.
  PodStatusWriter(kube::Client& client, kube::Informer<api::Pod>& pods, const base::Clock& clock);
  ~PodStatusWriter() { Stop(); }

  void Start();
  void Stop();

  // Queues `status` (from MakePodStatus); it replaces a status that still waits. The status of a
  // Pending pod waits for a fifth of a second, so that several changes become one write.
  void QueueStatus(const api::Pod& pod, base::Json status);
  // Writes `status` now, on this thread, and drops a status that still waits. OK also if the pod is
  // gone.
  base::Status WriteStatus(const api::Pod& pod, base::Json status);
  // Drops the waiting status.
  void DropStatus(const std::string& pod_uid);

 private:
  struct Wanted {
    std::string ns;
    std::string name;
    std::string uid;
    base::Json status;
  };
  base::Status WriteWanted(const Wanted& wanted);

  kube::Client& client_;
  kube::Informer<api::Pod>& pods_;
  const base::Clock& clock_;
  base::Mutex mutex_;
  std::map<std::string, std::shared_ptr<const Wanted>> wanted_ ABSL_GUARDED_BY(mutex_);  // by uid
  base::KeyedWorkers workers_;
};

}  // namespace berth::node
