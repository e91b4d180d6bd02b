// What is a node's: the pods that are bound to it and what they refer to.
//
//   node ◀─ pod ◀─ secret, configmap, service account, endpoints
//     ▲      ▲
//     │      └──── claim ◀─ volume ◀─ secret (of its CSI or Flexvolume driver, of CephFS),
//     │                                endpoints (of GlusterFS)
//     ├── host mount ◀─ claim ...
//     └── volume attachment
//
// The references of bound pods and host mounts are kept in memory from the first question on, by
// watching the store; volumes are read when asked for. An answer "no" is given only when all
// writes that were acknowledged before the question are known. Thread-safe; reads the store.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "api/kind_info.h"
#include "base/mutex.h"
#include "store/store.h"

namespace berth::apiserver {

// The question alone, for tests of the rules.
class ReachOracle {
 public:
  virtual ~ReachOracle() = default;
  // Whether the object is `node`'s, or referred to by what is.
  virtual bool Reaches(std::string_view node, std::string_view group, std::string_view resource,
                       std::string_view ns, std::string_view name) = 0;
};

class NodeReach : public ReachOracle {
 public:
  explicit NodeReach(store::Store& store);  // borrowed
  ~NodeReach() override;

  bool Reaches(std::string_view node, std::string_view group, std::string_view resource,
               std::string_view ns, std::string_view name) override;

 private:
  class References;

  base::Status Load() ABSL_LOCKS_EXCLUDED(mutex_);
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
