// Grows volumes of the block agent up to where the node takes over, as the controller manager's
// expand controller does for other plugins (which leaves these alone: pluginexpander).
//
//   a bound claim asks for more than its PersistentVolume has
//     ── condition Resizing written ──▶ Backend::Grow ── failed ──▶ event, again after the backoff
//                                            │ done
//                                            ▼
//     PersistentVolume.spec.capacity written ──▶ condition FileSystemResizePending: the node's turn
//
// Backend::Grow asks for at least a size, so that every step can be done again.
#pragma once

#include <string>

#include "base/keyed_workers.h"
#include "controllers/blockoperator/backends.h"
#include "controllers/blockoperator/block_volume.h"
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

  Outcome Sync(const std::string& key);
  Outcome Grow(const Claim& claim, const Volume& volume, const BlockVolume& block, int64_t wanted);
  base::StatusOr<Claim> SayResizing(const Claim& claim);
  Outcome LeaveToNode(const Claim& claim);
  Outcome Failed(const Claim& claim, const base::Status& why);

  const Context context_;
  Backends& backends_;
  kube::Informer<Claim>& claims_;
  kube::Informer<Volume>& volumes_;
  kube::Informer<api::StorageClass>& classes_;
  base::KeyedWorkers workers_;
};

}  // namespace berth::controllers::blockoperator
