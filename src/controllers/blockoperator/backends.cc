#include "controllers/blockoperator/backends.h"

namespace berth::controllers::blockoperator {

using base::Error;
using base::Status;
using base::StatusCode;
using base::StatusOr;

StatusOr<Backends::Ptr> Backends::Of(const std::string& cluster) {
  const auto object = clusters_.Get(cluster);
  if (object == nullptr) {
    RETURN_IF_ERROR(clusters_.CheckListed());
    base::MutexLock lock(mutex_);
    opened_.erase(cluster);
    return Error(StatusCode::kNotFound, "StorageCluster '{}' does not exist", cluster);
  }
  return Open(*object);
}

StatusOr<std::string> Backends::LifeOf(const std::string& cluster) {
  const auto object = clusters_.Get(cluster);
  if (object == nullptr) {
    return Error(StatusCode::kNotFound, "StorageCluster '{}' does not exist", cluster);
  }
  return object->uid();
}

bool Backends::MayBeSameStore(const std::string& one, const std::string& other) {
  if (one == other) return true;
  const auto first = clusters_.Get(one);
  const auto second = clusters_.Get(other);
  return first == nullptr || second == nullptr || first->backend() == nullptr ||
         second->backend() == nullptr ||
         block::MayBeSameStore(*first->backend(), *second->backend());
}

StatusOr<Backends::Ptr> Backends::Open(const api::StorageCluster& cluster) {
  const base::Json* backend = cluster.backend();
  if (backend == nullptr) {
    return Error(StatusCode::kInvalidArgument, "StorageCluster '{}' names no back end",
                 cluster.name());
  }
  std::string settings = base::json::Dump(*backend);
  {
    base::MutexLock lock(mutex_);
    const auto found = opened_.find(cluster.name());
    if (found != opened_.end() && found->second.settings == settings) return found->second.backend;
  }
  auto opened = open_(*backend);
  RETURN_IF_ERROR_WITH(opened,
                       fmt::format("open the back end of StorageCluster '{}'", cluster.name()));
  base::MutexLock lock(mutex_);
  Opened& slot = opened_[cluster.name()];
  // If another worker was faster, its back end is kept, because calls for one image exclude each
  // other only within one back end.
  if (slot.backend == nullptr || slot.settings != settings) {
    slot = {.settings = std::move(settings), .backend = *std::move(opened)};
  }
  return slot.backend;
}

Status CheckAnswers(block::Backend& backend) {
  const Status listed = backend.List().status();
  return listed.code() == StatusCode::kUnimplemented ? base::OkStatus() : listed;
}

}  // namespace berth::controllers::blockoperator
