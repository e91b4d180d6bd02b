// Makes volumes that begin as a copy of another claim's volume (provisioner.h).
#include "api/quantity.h"
#include "controllers/blockoperator/provisioner.h"
#include "controllers/claims.h"
#include "controllers/data_source.h"
#include "controllers/writes.h"

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
                 "snapshots are not offered by '{}': name a claim in spec.dataSource, of which a "
                 "copy is made",
                 api::kBlockProvisioner);
  }
  const std::string name = CloneSourceName(claim);
  if (name.empty()) {
    return Error(StatusCode::kUnimplemented, "a {} fills the volume", kind);
  }
  const auto refuse = [&](const std::string& why) {
    return Error(StatusCode::kFailedPrecondition, "copy claim '{}': {}", name, why);
  };
  const auto source = claims_.Get(claim.ns(), name);
  if (source == nullptr) return refuse("it does not exist");
  if (source->deleting()) return refuse("it is being deleted");
  const auto volume = volumes_.Get(source->volume_name());
  if (!IsBound(*source) || volume == nullptr || !RefersTo(*volume, *source)) {
    return refuse("it is not bound yet");
  }
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
  if (const Status unused = CheckUnused(*volume, backend); !unused.ok()) {
    return refuse(std::string(base::Message(unused)));
  }
  return block->image;
}

base::Status Provisioner::CheckUnused(const Volume& volume, block::Backend& backend) {
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

int64_t Provisioner::UsesSeen(const std::string& volume) {
  base::MutexLock lock(mutex_);
  return seen_[volume];
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
  const StatusOr<Volume> made = kube::Get<Volume>(context_.client, "", wanted.name);
  if (made.ok()) {
    volumes_.Observe(made->json());
    return Error(StatusCode::kAborted, "PersistentVolume '{}' is there already", wanted.name);
  }
  if (made.status().code() != StatusCode::kNotFound) return made.status();
  RETURN_IF_ERROR(Passing<"blockoperator.delete">([&] { return backend.Delete(wanted.name); }));
  const int64_t before = UsesSeen(volume->name());
  // The use is checked after the count was read, so that a use that begins later changes the count.
  RETURN_IF_ERROR(CheckUnused(*volume, backend));
  ASSIGN_OR_RETURN(const block::ImageInfo image,
                   Passing<"blockoperator.copy">([&] { return backend.Create(wanted); }));
  Status same = CheckUnused(*volume, backend);
  if (same.ok() && UsesSeen(volume->name()) != before) {
    same = Error(StatusCode::kFailedPrecondition, "it was in use meanwhile");
  }
  if (same.ok()) return image;
  RETURN_IF_ERROR(Passing<"blockoperator.delete">([&] { return backend.Delete(wanted.name); }));
  return base::Annotate(same, fmt::format("copy claim '{}'", source->name()));
}

}  // namespace berth::controllers::blockoperator
