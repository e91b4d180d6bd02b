// Writes pod.status in the background: the newest state of a pod, once what is there differs.
//
// Nothing waits for these writes but a pod's very end. A conflict is read again and retried; a pod
// that is gone, or another under the same name, is dropped; an API that is away is retried with
// backoff. Thread-safe.
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
  // Drops what waits.
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
