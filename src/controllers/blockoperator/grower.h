// Grows the images of the block agent's volumes to what claims and PersistentVolumes ask for. The
// controller manager writes the rest: kube-controller-manager, or Berth's plugin expander.
//
//   image                  ── Backend::Grow ──▶ annotation kImageSize of the volume
//   claim status, capacity    the controller manager's; this controller never writes them
//
// A claim waits for its image as long as its request or the volume's capacity is more than the
// capacity in its status. It does not matter whether the controller manager was here before, in
// between or not yet, because none of its writes ends that but the last one, after the node's part.
//
// Thread-safe. A failure is reported by an event, and the growth is tried again after the backoff.
// Backend::Grow asks for at least a size, so it can be called again whatever the first call did.
#pragma once

#include <string>

#include "base/workers/keyed_workers.h"
#include "controllers/blockoperator/backends.h"
#include "controllers/blockoperator/options.h"
#include "controllers/controller.h"

namespace berth::controllers::blockoperator {

class Grower {
 public:
  // `backends` is borrowed.
  Grower(const Context& context, Backends& backends, const Options& options);
  ~Grower() { Stop(); }

  void Start() { workers_.Start(); }
  void Stop() { workers_.Stop(); }

 private:
  using Outcome = base::KeyedWorkers::Outcome;
  using Claim = api::PersistentVolumeClaim;
  using Volume = api::PersistentVolume;

  void WatchObjects();
  Outcome SyncClaim(const std::string& key);
  // Grows the image to at least `wanted` bytes, and returns its size afterwards.
  base::StatusOr<int64_t> GrowImage(const Volume& volume, int64_t wanted);

  const Context context_;
  Backends& backends_;
  kube::Informer<Claim>& claims_;
  kube::Informer<Volume>& volumes_;
  kube::Informer<api::StorageClass>& classes_;
  base::KeyedWorkers workers_;
};

}  // namespace berth::controllers::blockoperator
