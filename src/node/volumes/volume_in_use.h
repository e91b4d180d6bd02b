// Keeps node.status.volumesInUse equal to the volumes that are, or may be, mounted on this node,
// because the attach/detach controller detaches only volumes that are not listed there
// (docs/design.md, rule 8).
//
//   wanted ─▶ [listed in the API] ─▶ MountDevice … UnmountDevice ─▶ [no longer listed] ─▶ detached
//
// It is the only writer of that field, and each write replaces the whole list. Volumes that need
// attaching are mounted only once they are listed. A change for which no pod waits is written a
// little later, so that it does not slow the start of a pod. Thread-safe.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "api/kinds/kinds.h"
#include "base/mutex.h"
#include "base/workers/keyed_workers.h"
#include "kube/client.h"
#include "kube/informers/handler_gate.h"
#include "kube/informers/informers.h"
#include "node/volumes/volume_parts_owner.h"

namespace berth::node {

class VolumesInUse {
 public:
  using Names = std::set<std::string>;
  // Everything is borrowed and must outlive this object. A thread of this object calls the owner's
  // DevicesInUse() before each write, and RetryUnreported() after the API has accepted the list.
  VolumesInUse(kube::Client& client, kube::Informers& informers, std::string node_name,
               VolumePartsOwner& owner);
  ~VolumesInUse();

  // Keeps a name listed although its record is damaged. `digest` is the SHA-256 of the name, in
  // hex.
  void KeepDamaged(std::string digest);
  // The volume is unmounted from the node, which ends KeepDamaged.
  void ForgetDamaged(const std::string& name);

  void Start();
  void Stop();

  // Schedules a write, because the result of the owner's DevicesInUse() may have changed. `urgent`:
  // a pod waits for it.
  void ScheduleReport(bool urgent);
  // The API is known to list `name`.
  bool IsReported(const std::string& name) const;

 private:
  void NodeRegistered() ABSL_LOCKS_EXCLUDED(mutex_);
  base::KeyedWorkers::Outcome WriteReport();
  base::StatusOr<Names> AddDamaged(Names names);

  kube::Client& client_;
  kube::Informer<api::Node>& nodes_;
  const std::string node_name_;
  VolumePartsOwner& owner_;
  mutable base::Mutex mutex_;
  std::optional<Names> reported_ ABSL_GUARDED_BY(mutex_);
  // The Node object was registered again since the last write began.
  bool lost_ ABSL_GUARDED_BY(mutex_) = false;
  Names damaged_digests_ ABSL_GUARDED_BY(mutex_);
  kube::HandlerGate<VolumesInUse> gate_;
  base::KeyedWorkers worker_;
};

}  // namespace berth::node
