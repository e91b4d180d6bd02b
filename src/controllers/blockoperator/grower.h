// Grows volumes of the block agent up to where the node takes over, as the controller manager's
// expand controller does for other plugins (which leaves these alone: pluginexpander). The steps
// are those of claim_growth.h; Backend::Grow makes the image larger.
//
// Thread-safe. A failure is reported by an event, and the growth is tried again after the backoff.
// Backend::Grow asks for at least a size, so it can be called again whatever the first call did.
#pragma once

#include <string>

#include "base/workers/keyed_workers.h"
#include "controllers/blockoperator/backends.h"
#include "controllers/blockoperator/options.h"
#include "controllers/claim_growth.h"
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

  Outcome SyncClaim(const std::string& key);
  Outcome GrowImage(const Claim& claim, const Volume& volume, int64_t wanted);

  Backends& backends_;
  kube::Informer<Claim>& claims_;
  kube::Informer<api::StorageClass>& classes_;
  ClaimGrowth growth_;
  base::KeyedWorkers workers_;
};

}  // namespace berth::controllers::blockoperator
