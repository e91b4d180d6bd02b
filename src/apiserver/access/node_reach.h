// Decides which objects a node may read: the pods that are bound to it, and the objects that they
// refer to.
//
//   node ◀─ pod ◀─ secret, configmap, service account, endpoints
//     ▲      ▲
//     │      └──── claim ◀─ volume ◀─ secret (of its CSI or Flexvolume driver, of CephFS),
//     │                                endpoints (of GlusterFS)
//     ├── host mount ◀─ claim ...
//     └── volume attachment
//
// From the first call on, two watches on the store keep the references of bound pods and host
// mounts in memory; volumes are read from the store at each call. Before the answer is "no", a call
// waits until the watches have delivered all writes that were acknowledged before the call, at most
// two seconds for each watch. A watch that lost changes is begun anew. If the store cannot be read,
// the answer is "no". Thread-safe; reads the store.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "api/kind_info.h"
#include "base/mutex.h"
#include "store/store.h"

namespace berth::apiserver {

// The interface of NodeReach. Tests of the rules have their own implementation.
class ReachOracle {
 public:
  virtual ~ReachOracle() = default;
  // Whether the object belongs to `node`, or an object that belongs to it refers to this one.
  virtual bool Reaches(std::string_view node, std::string_view group, std::string_view resource,
                       std::string_view ns, std::string_view name) = 0;
  // Whether the back end of a StorageCluster names the Secret (spec.backend.*.secretRef).
  virtual bool IsSecretOfCluster(std::string_view ns, std::string_view name) = 0;
};

class NodeReach : public ReachOracle {
 public:
  explicit NodeReach(store::Store& store);  // borrows `store`
  ~NodeReach() override;

  bool Reaches(std::string_view node, std::string_view group, std::string_view resource,
               std::string_view ns, std::string_view name) override;
  bool IsSecretOfCluster(std::string_view ns, std::string_view name) override;

 private:
  class References;

  base::Status LoadReferences() ABSL_LOCKS_EXCLUDED(mutex_);
  bool Refers(std::string_view node, std::string_view reference);
  bool IsBound(const api::KindInfo& kind, std::string_view node, std::string_view ns,
               std::string_view name);
  bool ReachesVolume(std::string_view node, std::string_view name);
  bool ReachesByVolume(std::string_view node, std::string_view resource, std::string_view ns,
                       std::string_view name);

  store::Store& store_;
  base::Mutex mutex_;
  std::shared_ptr<References> pods_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<References> host_mounts_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace berth::apiserver
