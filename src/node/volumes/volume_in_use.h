// Keeps node.status.volumesInUse equal to the volumes that are, or may be, mounted on this node:
// the fence that keeps the attach/detach controller from detaching them (DESIGN rule 8).
//
//   wanted ─▶ [listed in the API] ─▶ MountDevice … UnmountDevice ─▶ [no longer listed] ─▶ detached
//
// It is the only writer of that field, which it replaces whole. Volumes that need attaching are
// mounted only once they are listed; a change that concerns only others may come a little later,
// off the path of the pod that waits. Thread-safe.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "api/kinds/kinds.h"
#include "base/keyed_workers.h"
#include "base/mutex.h"
#include "kube/client.h"
#include "kube/handler_gate.h"
#include "kube/informer.h"
#include "node/volumes/volume_parts_owner.h"

namespace berth::node {

class VolumesInUse {
 public:
  using Names = std::set<std::string>;
  // Everything is borrowed and outlives this. The owner is asked for DevicesInUse(), and told to
  // RetryUnreported() after the API took them, both from a thread of this object.
  VolumesInUse(kube::Client& client, kube::Informers& informers, std::string node_name,
               VolumePartsOwner& owner);
  ~VolumesInUse();

  // Keeps names listed that no record names any more, because their records were damaged. `digest`
  // is the SHA-256 of such a name.
  void KeepDamaged(std::string digest);
  // The volume is unmounted from the node, which ends KeepDamaged.
  void ForgetDamaged(const std::string& name);

  void Start();
  void Stop();

  // What the owner's DevicesInUse() returns may have changed.
  void ScheduleReport(bool urgent);
  // The API is known to list `name`.
  bool IsReported(const std::string& name) const;

 private:
  void NodeRegistered() ABSL_LOCKS_EXCLUDED(mutex_);
  base::KeyedWorkers::Outcome Report();
  base::StatusOr<Names> WithDamaged(Names names);

  kube::Client& client_;
  kube::Informer<api::Node>& nodes_;
  const std::string node_name_;
  VolumePartsOwner& owner_;
  mutable base::Mutex mutex_;
  std::optional<Names> reported_ ABSL_GUARDED_BY(mutex_);
  // the Node object went away, since the last write began
  bool lost_ ABSL_GUARDED_BY(mutex_) = false;
  Names damaged_digests_ ABSL_GUARDED_BY(mutex_);
  kube::HandlerGate<VolumesInUse> gate_;
  base::KeyedWorkers worker_;
};

}  // namespace berth::node
