// Tells that two PersistentVolumes name one image, also as volumes of two StorageClusters that may
// be the same storage (block::MayBeSameStore).
//
// The first of them that is mounted has the image, and the other one is refused; but a node that
// dies is not fenced from the image, and the image is not deleted with one of them. So each
// PersistentVolume and each StorageCluster gets the event ImageNamedTwice, and the StorageCluster
// the condition of that name, which becomes False when one of the two is gone.
//
// A cluster is queued when a volume or a StorageCluster changes that has to do with it.
#pragma once

#include <map>
#include <string>

#include "api/kinds/block_kinds.h"
#include "base/workers/keyed_workers.h"
#include "controllers/blockoperator/backends.h"
#include "controllers/blockoperator/options.h"
#include "controllers/controller.h"

namespace berth::controllers::blockoperator {

class SharedImages {
 public:
  // `backends` is borrowed.
  SharedImages(const Context& context, Backends& backends, const Options& options);
  ~SharedImages() { Stop(); }

  void Start() { workers_.Start(); }
  void Stop() { workers_.Stop(); }

 private:
  using Outcome = base::KeyedWorkers::Outcome;
  using Cluster = api::StorageCluster;
  using Volume = api::PersistentVolume;

  void QueueClustersOf(const Volume& volume);
  Outcome Sync(const std::string& cluster);
  // The volumes of the cluster whose image another volume names, too, and what is to be said.
  std::map<std::string, std::string> FindShared(const std::string& cluster) const;

  const Context context_;
  Backends& backends_;
  kube::Informer<Cluster>& clusters_;
  kube::Informer<Volume>& volumes_;
  base::KeyedWorkers workers_;
};

}  // namespace berth::controllers::blockoperator
