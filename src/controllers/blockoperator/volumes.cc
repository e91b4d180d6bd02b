// Deletes released PersistentVolumes and their images (provisioner.h).
#include <algorithm>

#include "base/log.h"
#include "controllers/blockoperator/image_progress.h"
#include "controllers/blockoperator/provisioner.h"
#include "controllers/claims.h"
#include "controllers/data_source.h"
#include "controllers/well_known_names.h"
#include "controllers/writes.h"

namespace berth::controllers::blockoperator {

using base::Error;

namespace {

bool IsUnwanted(const api::PersistentVolume& volume) {
  return volume.phase() == "Released" && volume.reclaim_policy() == "Delete";
}

bool WantsFinalizer(const api::PersistentVolume& volume) {
  return volume.reclaim_policy() == "Delete" &&
         (!volume.deleting() || volume.has_finalizer(kImageFinalizer));
}

// A volume that is being deleted without our finalizer has no image any more; others keep the
// object.
bool WantsDeletion(const api::PersistentVolume& volume) {
  return IsUnwanted(volume) && (!volume.deleting() || volume.has_finalizer(kImageFinalizer));
}

// Whether the image may be deleted although its lock could not be checked: the image or its file is
// gone, or the back end knows no locks. If the name now belongs to another image, Delete notices
// this and leaves that image alone.
bool MayBeDeleted(const base::Status& untold) {
  return untold.code() == StatusCode::kUnimplemented || untold.code() == StatusCode::kNotFound ||
         untold.code() == StatusCode::kDataLoss;
}

}  // namespace

Provisioner::Outcome Provisioner::SyncVolume(const std::string& key) {
  const auto volume = volumes_.Get(key);
  if (volume == nullptr || volume->annotation(kProvisionedBy) != api::kBlockProvisioner ||
      !BlockVolumeOf(*volume).has_value()) {
    return Outcome::Done();
  }
  if (!WantsDeletion(*volume)) return AfterApi(SyncFinalizer(*volume));

  // The volume is read from the API before data is destroyed, because the informer's copy may be
  // old.
  const StatusOr<Volume> live = kube::Get<Volume>(context_.client, "", key);
  if (!live.ok()) return AfterApi(live.status());
  const auto block = BlockVolumeOf(*live);
  if (live->uid() != volume->uid() || live->claim_uid() != volume->claim_uid() ||
      !WantsDeletion(*live) || !block.has_value()) {
    volumes_.Observe(live->json());
    return Outcome::Done();
  }
  const StatusOr<std::string> holder = FindHolder(*live, *block);
  if (holder.ok() && !holder->empty()) return AwaitRelease(*live, *holder);
  const Status destroyed = holder.ok() ? Destroy(*live, *block) : holder.status();
  if (!destroyed.ok()) {
    context_.events.Record(live->reference(), base::EventType::kWarning, "VolumeFailedDelete",
                           base::Message(destroyed));
    return Outcome::Retry(destroyed);
  }
  if (live->has_finalizer(kImageFinalizer)) {
    const Status freed =
        PatchAt(context_.client, volumes_, *live, FinalizersPatch(*live, "", kImageFinalizer))
            .status();
    if (!freed.ok()) return AfterApi(freed);
  }
  return live->deleting() ? Outcome::Done() : AfterApi(kube::Delete(context_.client, *live));
}

base::Status Provisioner::SyncFinalizer(const Volume& volume) {
  const bool wanted = WantsFinalizer(volume);
  if (wanted == volume.has_finalizer(kImageFinalizer)) return base::OkStatus();
  return PatchAt(
             context_.client, volumes_, volume,
             FinalizersPatch(volume, wanted ? kImageFinalizer : "", wanted ? "" : kImageFinalizer))
      .status();
}

// Checks that no other wanted PersistentVolume shows the image, and that no copy of it is under
// way, because both still need its data.
base::Status Provisioner::CheckAlone(const Volume& volume, const BlockVolume& block) const {
  for (const auto& other : volumes_.ByIndex(kVolumesByImage, block.image)) {
    if (other->name() == volume.name() || IsUnwanted(*other)) continue;
    if (!backends_.MayBeSameStore(block.cluster, BlockVolumeOf(*other)->cluster)) continue;
    return Error(StatusCode::kFailedPrecondition,
                 "image '{}' is PersistentVolume '{}', too, and is not deleted with this one",
                 block.image, other->name());
  }
  for (const auto& claim : claims_.Subset(kOpenClaims)) {
    if (claim->ns() == volume.claim_namespace() && claim->volume_name().empty() &&
        claim->has_finalizer(kProvisioningFinalizer) &&
        CloneSourceName(*claim) == volume.claim_name()) {
      return Error(StatusCode::kFailedPrecondition, "claim '{}' is to become a copy of it",
                   claim->key());
    }
  }
  for (const auto& snapshot : snapshots_.ByIndex(kSnapshotsByVolume, volume.name())) {
    if (snapshot->deleting() || snapshot->ready()) continue;
    return Error(StatusCode::kFailedPrecondition, "BlockSnapshot '{}' is to be made of it{}{}",
                 snapshot->key(), snapshot->error().empty() ? "" : ": ", snapshot->error());
  }
  return base::OkStatus();
}

base::StatusOr<std::string> Provisioner::FindHolder(const Volume& volume,
                                                    const BlockVolume& block) {
  RETURN_IF_ERROR(CheckAlone(volume, block));
  ASSIGN_OR_RETURN(std::string user, uses_.FindUser(volume.name()));
  if (!user.empty()) return user;
  const StatusOr<Backends::Ptr> backend = backends_.Of(block.cluster);
  if (backend.status().code() == StatusCode::kNotFound) {
    return Error(StatusCode::kNotFound,
                 "StorageCluster '{}' is gone, and image '{}' with it or out of reach: create the "
                 "cluster again, or take the finalizer {} off this PersistentVolume to forget it",
                 block.cluster, block.image, kImageFinalizer);
  }
  RETURN_IF_ERROR(backend);
  // A node that died left its lock in the storage, which keeps it until it is broken.
  if ((*backend)->FencesNodes()) RETURN_IF_ERROR(FenceOwingNodes(volume, block, **backend));
  const StatusOr<bool> locked = (*backend)->HasLock(block.image);
  if (locked.ok() && *locked) {
    return fmt::format("a node still has image '{}' mapped (the back end holds a lock)",
                       block.image);
  }
  if (!locked.ok() && !MayBeDeleted(locked.status())) return locked.status();
  return std::string();
}

base::Status Provisioner::FenceOwingNodes(const Volume& volume, const BlockVolume& block,
                                          block::Backend& backend) {
  ASSIGN_OR_RETURN(const kube::ListResult cleanups,
                   context_.client.List(api::kinds::kNodeCleanup, "", {}));
  for (const base::Json& item : cleanups.items) {
    const api::NodeCleanup cleanup(item);
    const auto entries = cleanup.entries();
    if (std::none_of(entries.begin(), entries.end(), [&](const api::CleanupEntry& entry) {
          return entry.volume == volume.name();
        })) {
      continue;
    }
    // Nobody gets a released volume, so no client of the list is there by right.
    const api::NodeName node(cleanup.name());
    const auto fence = [&]() -> base::Status {
      ASSIGN_OR_RETURN(const auto clients, backend.FindClients(block.image, node));
      return backend.Fence(block.image, node, clients);
    };
    RETURN_IF_ERROR_WITH(Passing<"blockoperator.fence">(fence),
                         fmt::format("fence node '{}' from image '{}'", node.text(), block.image));
  }
  return base::OkStatus();
}

Provisioner::Outcome Provisioner::AwaitRelease(const Volume& volume, const std::string& holder) {
  const auto now = std::chrono::steady_clock::now();
  {
    base::MutexLock lock(mutex_);
    const auto [since, is_new] = held_.try_emplace(volume.uid(), now);
    if (is_new) {
      LOG_INFO("the deletion of volume {} waits: {}", base::Quote(volume.name()), holder);
    }
    // A pod ends before its node has unmounted the volume, so that is no failure. WatchSources
    // queues the volume when its fence goes; the pause is for locks.
    if (now - since->second < unmount_patience_) return Outcome::After(unmount_pause_);
  }
  context_.events.Record(volume.reference(), base::EventType::kWarning, "VolumeFailedDelete",
                         holder);
  return Outcome::Retry(Error(StatusCode::kFailedPrecondition, "{}", holder));
}

base::Status Provisioner::Destroy(const Volume& volume, const BlockVolume& block) {
  ASSIGN_OR_RETURN(const Backends::Ptr backend, backends_.Of(block.cluster));
  const ImageProgress progress(context_.events, volume.reference(), kVolumeDeleting,
                               fmt::format("image '{}' is being deleted", block.image),
                               {.patience = progress_patience_});
  RETURN_IF_ERROR_WITH(
      Passing<"blockoperator.delete">([&] { return backend->Delete(block.image); }),
      fmt::format("delete image '{}'", block.image));
  LOG_INFO("image {} of PersistentVolume {} is deleted", base::Quote(block.image),
           base::Quote(volume.name()));
  return base::OkStatus();
}

}  // namespace berth::controllers::blockoperator
