// Writes pod.status in the background: the newest state of a pod, once what is there differs.
//
// Only the end of a pod waits for these writes. After a conflict the pod is read again and the
// write retried; a write for a pod that is gone, or replaced by another of its name, is dropped;
// while the API is away, writes are retried with backoff. Thread-safe.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "api/kinds/kinds.h"
#include "base/clock.h"
#include "base/keyed_workers.h"
#include "base/mutex.h"
#include "kube/client.h"
#include "kube/informer.h"

namespace berth::node {

class PodStatusWriter {
 public:
  // All borrowed.
  PodStatusWriter(kube::Client& client, kube::Informer<api::Pod>& pods, const base::Clock& clock);
  ~PodStatusWriter() { Stop(); }

  void Start();
  void Stop();

  // `status` of MakePodStatus is to be written; it replaces one that waits. A Pending pod's is
  // written once it has settled for a fifth of a second.
  void Put(const api::Pod& pod, base::Json status);
  // Writes it now, on this thread. OK also if the pod is gone.
  base::Status Write(const api::Pod& pod, base::Json status);
  // Drops the waiting status.
  void Forget(const std::string& pod_uid);

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
