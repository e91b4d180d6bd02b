// Decides which objects a node may read: the pods that are bound to it, and the objects that they
// refer to.
//
//   node ◀─ pod ◀─ secret, configmap, service account, endpoints
//     ▲      ▲
//     │      └──── claim ◀─ volume ◀─ secret (of its CSI or Flexvolume driver, of CephFS),
//     │                                endpoints (of GlusterFS)
//     ├── host mount ◀─ claim ...
//     │                 (for a block agent: a volume ◀─ StorageCluster ◀─ secret)
//     └── volume attachment
//
// From the first call on, two watches on the store keep the references of bound pods and host
// mounts in memory; volumes are read from the store at each call. Before the answer is "no", a call
// waits until the watches have delivered all writes that were acknowledged before the call, at most
// two seconds for each watch. A watch that lost changes is begun anew. If the store cannot be read,
// the answer is "no". Thread-safe; reads the store.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "api/kind_info.h"
#include "api/kinds/object_ids.h"
#include "base/json.h"
#include "base/mutex.h"
#include "store/store.h"

namespace berth::apiserver {

// The interface of NodeReach. Tests of the rules have their own implementation.
class ReachOracle {
 public:
  virtual ~ReachOracle() = default;
  // Whether the object belongs to `node`, or an object that belongs to it refers to this one.
  virtual bool Reaches(const api::NodeName& node, std::string_view group, std::string_view resource,
                       std::string_view ns, std::string_view name) = 0;
  // Whether the back end of a StorageCluster names the Secret (spec.backend.*.secretRef), and the
  // node has to do with a volume of that StorageCluster: a pod that is bound to the node uses it,
  // or the node has an entry in its VolumeFence, or still has to take it off (NodeCleanup).
  virtual bool IsSecretOfCluster(const api::NodeName& node, std::string_view ns,
                                 std::string_view name) = 0;
};

class NodeReach : public ReachOracle {
 public:
  explicit NodeReach(store::Store& store);  // borrows `store`
  ~NodeReach() override;

  bool Reaches(const api::NodeName& node, std::string_view group, std::string_view resource,
               std::string_view ns, std::string_view name) override;
  bool IsSecretOfCluster(const api::NodeName& node, std::string_view ns,
                         std::string_view name) override;

 private:
  class References;

  base::Status LoadReferences() ABSL_LOCKS_EXCLUDED(mutex_);
  bool Refers(const api::NodeName& node, std::string_view reference);
  bool IsBound(const api::KindInfo& kind, const api::NodeName& node, std::string_view ns,
               std::string_view name);
  bool ReachesVolume(const api::NodeName& node, std::string_view name);
  // Calls `visit` for the volumes that the node's pods and host mounts use, until it returns true,
  // and returns whether it did. `settled`: waits for the writes that were acknowledged before.
  bool FindVolume(const api::NodeName& node, bool settled,
                  const std::function<bool(const base::Json& volume)>& visit);
  // The names of the StorageClusters whose back end names the Secret.
  std::set<std::string> FindClustersOf(std::string_view ns, std::string_view name);
  // Whether a VolumeFence or the node's NodeCleanup has an entry of the node for one of the
  // clusters.
  bool HasEntryOf(const api::NodeName& node, const std::set<std::string>& clusters);
  // Calls `visit` for the objects of a kind whose text has `part`, until it returns true, and
  // returns whether it did.
  bool FindObject(const api::KindInfo& kind, std::string_view part,
                  const std::function<bool(const base::Json& object)>& visit);
  bool ReachesByVolume(const api::NodeName& node, std::string_view resource, std::string_view ns,
                       std::string_view name);

  store::Store& store_;
  base::Mutex mutex_;
  std::shared_ptr<References> pods_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<References> host_mounts_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace berth::apiserver
