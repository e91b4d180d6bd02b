// Makes volumes that begin with the data of another claim's volume or of a snapshot
// (provisioner.h).
#include "api/quantity.h"
#include "controllers/blockoperator/provisioner.h"
#include "controllers/data_source.h"
#include "controllers/well_known_names.h"
#include "controllers/writes.h"
#include "kube/informers/live_object.h"

namespace berth::controllers::blockoperator {

using base::Error;

Provisioner::Outcome Provisioner::ProvisionCopy(const Claim& claim,
                                                const api::StorageClass& storage_class,
                                                const Plan& plan) {
  bool full = false;
  {
    base::MutexLock lock(mutex_);
    int& under_way = copies_[claim.ns()];
    full = under_way >= copies_of_namespace_;
    if (!full) ++under_way;
  }
  if (full) {
    Outcome later = Failed(claim, storage_class.name(),
                           Error(StatusCode::kResourceExhausted,
                                 "{} copies are under way in namespace '{}', and others wait",
                                 copies_of_namespace_, claim.ns()));
    later.delay = copy_pause_;
    return later;
  }
  Outcome outcome = Create(claim, storage_class, plan);
  base::MutexLock lock(mutex_);
  if (--copies_[claim.ns()] == 0) copies_.erase(claim.ns());
  return outcome;
}

StatusOr<std::string> Provisioner::SourceImage(const Claim& claim, const Plan& plan,
                                               block::Backend& backend) {
  const std::string kind = claim.data_source().String({"kind"});
  if (kind.empty()) return std::string();
  if (const std::string ns = DataSourceNamespace(claim); ns != claim.ns()) {
    return Error(StatusCode::kInvalidArgument,
                 "dataSourceRef names a {} in namespace '{}', and '{}' copies only within a "
                 "namespace",
                 kind, ns, api::kBlockProvisioner);
  }
  if (!SnapshotSourceName(claim).empty()) {
    return Error(StatusCode::kInvalidArgument,
                 "'{}' makes no VolumeSnapshots: name a BlockSnapshot of group {} in "
                 "spec.dataSourceRef, or a claim of which a copy is made",
                 api::kBlockProvisioner, api::kBlockGroup);
  }
  if (!BlockSnapshotSourceName(claim).empty()) return SnapshotImage(claim, plan);
  const std::string name = CloneSourceName(claim);
  if (name.empty()) {
    return Error(StatusCode::kUnimplemented, "a {} fills the volume", kind);
  }
  const auto refuse = [&](const std::string& why) {
    return Error(StatusCode::kFailedPrecondition, "copy claim '{}': {}", name, why);
  };
  const auto found = FindBoundVolume(claims_, volumes_, claim.ns(), name);
  if (!found.ok()) return refuse(fmt::format("it {}", base::Message(found.status())));
  const auto& volume = *found;
  const auto block = BlockVolumeOf(*volume);
  if (!block.has_value() || block->cluster != plan.settings.cluster) {
    return refuse(fmt::format("its volume is not in StorageCluster '{}'", plan.settings.cluster));
  }
  if (const std::string fs_type = volume->String({"spec", "flexVolume", "fsType"});
      fs_type != plan.settings.fs_type) {
    return refuse(fmt::format("its file system is {}, and that of the class is {}", fs_type,
                              plan.settings.fs_type));
  }
  ASSIGN_OR_RETURN(const int64_t has, api::ParseBytes(volume->capacity()));
  if (plan.image.size_bytes < has) {
    return refuse(fmt::format("the copy has to have at least its size, {}", volume->capacity()));
  }
  if (const Status unused = quiet_copies_.CheckUnused(*volume, backend); !unused.ok()) {
    return refuse(std::string(base::Message(unused)));
  }
  return block->image;
}

StatusOr<std::string> Provisioner::SnapshotImage(const Claim& claim, const Plan& plan) {
  const std::string name = BlockSnapshotSourceName(claim);
  const auto refuse = [&](const std::string& why) {
    return Error(StatusCode::kFailedPrecondition, "restore BlockSnapshot '{}': {}", name, why);
  };
  const auto snapshot = snapshots_.Get(claim.ns(), name);
  if (snapshot == nullptr) return refuse("it does not exist");
  // Its deletion waits for a claim that was begun before (snapshots.h).
  if (snapshot->deleting() && !claim.has_finalizer(kProvisioningFinalizer)) {
    return refuse("it is being deleted");
  }
  if (!snapshot->ready()) {
    return refuse(snapshot->error().empty() ? "it is not made yet"
                                            : "it is not made: " + snapshot->error());
  }
  if (snapshot->cluster() != plan.settings.cluster) {
    return refuse(fmt::format("it is not in StorageCluster '{}'", plan.settings.cluster));
  }
  if (snapshot->fs_type() != plan.settings.fs_type) {
    return refuse(fmt::format("its file system is {}, and that of the class is {}",
                              snapshot->fs_type(), plan.settings.fs_type));
  }
  ASSIGN_OR_RETURN(const int64_t has, api::ParseBytes(snapshot->restore_size()));
  if (plan.image.size_bytes < has) {
    return refuse(
        fmt::format("the claim has to ask for at least its size, {}", snapshot->restore_size()));
  }
  return snapshot->snapshot();
}

ImageProgress Provisioner::ReportCopy(const Claim& claim, const block::NewImage& wanted) const {
  return ImageProgress(
      context_.events, claim.reference(), kImageCopying,
      fmt::format("image '{}' is being copied from image '{}'", wanted.name, wanted.source),
      {.patience = progress_patience_});
}

StatusOr<block::ImageInfo> Provisioner::CreateCopy(const Claim& claim,
                                                   const block::NewImage& wanted,
                                                   block::Backend& backend) {
  const auto source = claims_.Get(claim.ns(), CloneSourceName(claim));
  const auto volume = source == nullptr ? nullptr : volumes_.Get(source->volume_name());
  if (volume == nullptr) {
    return Error(StatusCode::kFailedPrecondition, "the claim to be copied is gone");
  }
  // A copy that an earlier run made is deleted and made again, because the source may have been
  // written during that run. It is kept if a PersistentVolume names it already.
  const base::Status read =
      kube::ReadLiveObject(context_.client, volumes_, "", wanted.name).status();
  if (read.ok()) {
    return Error(StatusCode::kAborted, "PersistentVolume '{}' is there already", wanted.name);
  }
  if (read.code() != StatusCode::kNotFound) return read;
  const auto copied = quiet_copies_.Copy(*volume, backend, wanted.name, [&] {
    const ImageProgress progress = ReportCopy(claim, wanted);
    return Passing<"blockoperator.copy">([&] { return backend.Create(wanted); });
  });
  RETURN_IF_ERROR_WITH(copied, fmt::format("copy claim '{}'", source->name()));
  return copied;
}

}  // namespace berth::controllers::blockoperator
