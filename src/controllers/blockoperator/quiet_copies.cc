#include "controllers/blockoperator/quiet_copies.h"

#include "controllers/blockoperator/backends.h"
#include "controllers/blockoperator/block_volume.h"

namespace berth::controllers::blockoperator {

using base::Error;
using base::Status;
using base::StatusCode;
using base::StatusOr;

QuietCopies::QuietCopies(const Context& context, NodeProofs& proofs) : uses_(context, proofs) {
  context.informers.OfOptional<api::VolumeFence>().AddHandler([this](const auto& change) {
    base::MutexLock lock(mutex_);
    if (const auto it = seen_.find(change.key); it != seen_.end()) ++it->second;
  });
  context.informers.Of<api::PersistentVolume>().AddHandler([this](const auto& change) {
    if (change.after != nullptr) return;
    base::MutexLock lock(mutex_);
    seen_.erase(change.key);
  });
}

Status QuietCopies::CheckUnused(const api::PersistentVolume& volume, block::Backend& backend) {
  ASSIGN_OR_RETURN(const std::string user, uses_.FindUser(volume.name()));
  if (!user.empty()) {
    return Error(StatusCode::kFailedPrecondition, "it is in use: {}; end that use", user);
  }
  const auto block = BlockVolumeOf(volume);
  const StatusOr<bool> locked = backend.HasLock(block->image);
  // If the back end knows no locks, the fence alone shows whether the image is in use.
  if (locked.status().code() == StatusCode::kUnimplemented) return base::OkStatus();
  RETURN_IF_ERROR(locked);
  if (*locked) {
    return Error(StatusCode::kFailedPrecondition, "a node still has its image '{}' mapped",
                 block->image);
  }
  return base::OkStatus();
}

int64_t QuietCopies::CountUses(const std::string& volume) {
  base::MutexLock lock(mutex_);
  return seen_[volume];
}

StatusOr<block::ImageInfo> QuietCopies::Copy(
    const api::PersistentVolume& source, block::Backend& backend, const std::string& name,
    const std::function<StatusOr<block::ImageInfo>()>& make) {
  RETURN_IF_ERROR(Passing<"blockoperator.delete">([&] { return backend.Delete(name); }));
  const int64_t before = CountUses(source.name());
  // The use is checked after the count was read, so that a use that begins later changes the count.
  RETURN_IF_ERROR(CheckUnused(source, backend));
  ASSIGN_OR_RETURN(const block::ImageInfo image, make());
  Status same = CheckUnused(source, backend);
  if (same.ok() && CountUses(source.name()) != before) {
    same = Error(StatusCode::kFailedPrecondition, "it was in use meanwhile");
  }
  if (same.ok()) return image;
  RETURN_IF_ERROR(Passing<"blockoperator.delete">([&] { return backend.Delete(name); }));
  return same;
}

}  // namespace berth::controllers::blockoperator
