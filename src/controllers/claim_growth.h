// The growth of a claim's volume by a controller of this process, until the node takes over: the
// steps that kube-controller-manager takes in Kubernetes. The resizer takes other steps, because it
// follows the sidecar of CSI drivers.
//
//   a bound claim asks for more than its PersistentVolume has
//     ── condition Resizing written ──▶ the owner grows the volume ── failed ──▶ event, again
//                                            │ done                             after the backoff
//                                            ▼
//     PersistentVolume.spec.capacity written ──▶ condition FileSystemResizePending: the node's turn
//
// The owner asks for a size rather than for an increase, so that every step can be done again after
// a crash or an unknown outcome.
//
// Thread-safe, for different keys; one key is not synced twice at a time. What the context names is
// borrowed and outlives this object. A failed write of the API leaves the step to be done again.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "api/kinds/kinds.h"
#include "base/status.h"
#include "base/workers/keyed_workers.h"
#include "controllers/controller.h"

namespace berth::controllers {

// The annotation of a PersistentVolume of the block agent with the size that its image has (a
// quantity). The block operator writes it when it has grown the image for a claim (ADR 0027).
inline constexpr std::string_view kImageSize = "storage.berth.dev/image-size";

class ClaimGrowth {
 public:
  using Outcome = base::KeyedWorkers::Outcome;
  using Claim = api::PersistentVolumeClaim;
  using Volume = api::PersistentVolume;
  // Grows the claim's volume from `has` to at least `wanted` bytes, between BeginGrowth and
  // FinishGrowth.
  using Grow =
      std::function<Outcome(const Claim& claim, const Volume& volume, int64_t wanted, int64_t has)>;

  // `is_ours` tells whether the owner grows the volume.
  ClaimGrowth(const Context& context, bool (*is_ours)(const Volume& volume));

  // Queues claims in `queue` when they ask for another size, or their volume appears, or its image
  // has another size. To be called once; `queue` outlives the informers' handlers.
  void WatchClaims(base::KeyedWorkers& queue);
  // Does the next step for the claim `key`: calls `grow` if it asks for more than its volume has.
  Outcome SyncClaim(const std::string& key, const Grow& grow);

  // Writes the condition Resizing, and returns the claim as it is afterwards.
  base::StatusOr<Claim> BeginGrowth(const Claim& claim);
  // The volume has the size `capacity` (a quantity) now: writes this to the PersistentVolume, and
  // leaves the file system to the node.
  Outcome FinishGrowth(const Claim& claim, const Volume& volume, const std::string& capacity);
  // The volume has not grown, or the outcome is unknown: records an event, and tries again.
  Outcome ReportFailure(const Claim& claim, const base::Status& why);

 private:
  Outcome LeaveToNode(const Claim& claim);

  const Context context_;
  bool (*const is_ours_)(const Volume& volume);
  kube::Informer<Claim>& claims_;
  kube::Informer<Volume>& volumes_;
};

}  // namespace berth::controllers
