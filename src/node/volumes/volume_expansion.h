// The node's part of the growth of a volume: when it must be done, and how the claim's status says
// that it is done.
//
// The controller grows the volume and leaves the file system to the node. It says so with the
// claim's condition FileSystemResizePending, with status.allocatedResourceStatuses.storage =
// NodeResizePending, or with a PV that is larger than the claim's status.capacity. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "api/kinds/kinds.h"
#include "base/event_sink.h"
#include "kube/client.h"
#include "kube/informers/informers.h"
#include "volume/volume_plugin.h"

namespace berth::node {

// The size in bytes to which the volume must grow on this node; nullopt: there is nothing to do.
std::optional<int64_t> FindPendingExpansion(const volume::VolumeSpec& spec);

// The claim's status after a successful expansion to its PV's capacity.
base::Json MakeExpandedStatus(const api::PersistentVolumeClaim& claim,
                              const api::PersistentVolume& pv);

class VolumeExpansion {
 public:
  VolumeExpansion(kube::Client& client, kube::Informers& informers, base::EventSink& events)
      : client_(client), claims_(informers.Of<api::PersistentVolumeClaim>()), events_(events) {}

  // Writes the claim's status, and reports the growth to pod and claim in events. Errors come from
  // the API; after ABORTED (a conflict) call it again.
  base::Status FinishExpansion(const base::ObjectReference& pod, const volume::VolumeSpec& spec);
  // Reports to pod and claim in events that `why` kept the volume from growing. If trying again
  // cannot help (IsInfeasible) and the claim has status.allocatedResourceStatuses.storage, sets
  // that to NodeResizeInfeasible. Errors come from the API.
  base::Status ReportFailure(const base::ObjectReference& pod, const volume::VolumeSpec& spec,
                             const base::Status& why);
  // True for INVALID_ARGUMENT, OUT_OF_RANGE and NOT_FOUND.
  static bool IsInfeasible(const base::Status& why);

 private:
  base::Status PatchStatus(const api::PersistentVolumeClaim& claim, base::Json status);

  kube::Client& client_;
  kube::Informer<api::PersistentVolumeClaim>& claims_;
  base::EventSink& events_;
};

}  // namespace berth::node
