// The back ends of StorageClusters, opened as they are needed and kept while their settings stay.
// Thread-safe. Calls of a back end may take long, but all have an end (block/backend.h).
//
// Each call that changes an image passes the fault points "blockoperator.CALL.before" and ".after".
#pragma once

#include <map>
#include <memory>
#include <string>

#include "api/kinds/block_kinds.h"
#include "base/fault.h"
#include "base/mutex.h"
#include "controllers/blockoperator/options.h"
#include "kube/informers/informer.h"

namespace berth::controllers::blockoperator {

class Backends {
 public:
  using Ptr = std::shared_ptr<block::Backend>;

  // `clusters` is borrowed and must outlive this object.
  Backends(kube::Informer<api::StorageCluster>& clusters, OpenBackend open)
      : clusters_(clusters), open_(std::move(open)) {}

  // Both return the back end of a cluster, and open it if it is not open with the present settings.
  // NOT_FOUND: there is no such cluster; INVALID_ARGUMENT: its spec names no back end. Other errors
  // come from opening the back end, or say that the clusters are not listed.
  base::StatusOr<Ptr> Of(const std::string& cluster);
  base::StatusOr<Ptr> Open(const api::StorageCluster& cluster);
  // Whether an image of one name may be the same in both clusters (block::MayBeSameStore). A
  // cluster that is gone shows nothing, so it may.
  bool MayBeSameStore(const std::string& one, const std::string& other);
  // The `life` of Backend::ExchangeLocks and ProveLocks: the uid of the cluster. NOT_FOUND.
  base::StatusOr<std::string> LifeOf(const std::string& cluster);

 private:
  struct Opened {
    std::string settings;
    Ptr backend;
  };
  kube::Informer<api::StorageCluster>& clusters_;
  const OpenBackend open_;
  base::Mutex mutex_;
  std::map<std::string, Opened> opened_ ABSL_GUARDED_BY(mutex_);  // by the cluster's name
};

// Whether the storage answers, as this operator asks it. OK also if the back end cannot list
// images, because it says so itself. Other errors are those of Backend::List.
base::Status CheckAnswers(block::Backend& backend);

// Runs `call` between the two fault points of its name, and returns its result. A fault point that
// fails takes the place of the result.
template <base::FaultName kCall, typename Call>
auto Passing(Call call) -> decltype(call()) {
  const base::CallPoints points = base::CallPointsOf<kCall>();
  RETURN_IF_ERROR(points.before->PassPoint());
  auto result = call();
  RETURN_IF_ERROR(points.after->PassPoint());
  return result;
}

}  // namespace berth::controllers::blockoperator
