// Makes PersistentVolumes for claims (provisioner.h).
#include "controllers/claims.h"

#include "base/log.h"
#include "controllers/blockoperator/cluster_conditions.h"
#include "controllers/blockoperator/provisioner.h"
#include "controllers/data_source.h"
#include "controllers/well_known_names.h"
#include "controllers/writes.h"
#include "kube/informers/live_object.h"

namespace berth::controllers::blockoperator {

using base::EventType;

Provisioner::Outcome Provisioner::SyncClaim(const std::string& key) {
  const auto claim = claims_.Get(key);
  if (claim == nullptr || (claim->annotation(kStorageProvisioner) != api::kBlockProvisioner &&
                           claim->annotation(kBetaStorageProvisioner) != api::kBlockProvisioner)) {
    return Outcome::Done();
  }
  const bool held = claim->has_finalizer(kProvisioningFinalizer);
  const bool unwanted = claim->deleting() || !claim->volume_name().empty();
  const auto object = volumes_.Get(VolumeName(*claim));
  if (object != nullptr && RefersTo(*object, *claim)) {
    // The claim has its PersistentVolume. Berth's binder removes the finalizer when it binds the
    // claim; other binders do not, so it is removed here.
    return held && unwanted ? Release(*claim) : Outcome::Done();
  }
  if (unwanted) return held ? DeleteBegunImage(*claim) : Outcome::Done();
  const std::string class_name = ClassName(*claim, classes_);
  const auto storage_class = classes_.Get(class_name);
  if (storage_class == nullptr || storage_class->provisioner() != api::kBlockProvisioner) {
    return Outcome::Done();
  }
  if (object != nullptr) {
    return Failed(
        *claim, class_name,
        base::Error(StatusCode::kAlreadyExists,
                    "PersistentVolume '{}' exists and belongs to another claim", object->name()));
  }
  if (storage_class->wait_for_first_consumer() && claim->annotation(kSelectedNode).empty()) {
    return Outcome::Done();
  }
  return Provision(*claim, *storage_class);
}

Provisioner::Outcome Provisioner::Provision(const Claim& claim,
                                            const api::StorageClass& storage_class) {
  const StatusOr<ClassSettings> settings = ReadClass(storage_class);
  if (!settings.ok()) return Failed(claim, storage_class.name(), settings.status());
  const auto cluster = clusters_.Get(settings->cluster);
  if (cluster == nullptr) {
    const Status missing =
        base::Error(StatusCode::kFailedPrecondition,
                    "StorageCluster '{}' does not exist: create it, or name another one in the "
                    "class's parameter '{}'",
                    settings->cluster, api::kClusterOption);
    return Failed(claim, storage_class.name(), missing);
  }
  if (cluster->deleting()) {
    return Failed(claim, storage_class.name(),
                  base::Error(StatusCode::kFailedPrecondition,
                              "StorageCluster '{}' is being deleted", cluster->name()));
  }
  const StatusOr<Plan> plan = MakePlan(claim, storage_class, *cluster);
  if (!plan.ok()) return Failed(claim, storage_class.name(), plan.status());
  if (const std::string selected = claim.annotation(kSelectedNode); !selected.empty()) {
    const auto node = nodes_.Get(selected);
    const Volume volume =
        VolumeObject(*plan, claim, storage_class,
                     {.name = plan->image.name, .size_bytes = plan->image.size_bytes});
    if (node == nullptr || !VolumeReachableFrom(volume, *node)) {
      const Status elsewhere =
          node == nullptr
              ? base::Error(StatusCode::kFailedPrecondition,
                            "node '{}', which was selected, is gone", selected)
              : base::Error(StatusCode::kFailedPrecondition,
                            "node '{}', which was selected, is not one that uses StorageCluster "
                            "'{}' (its nodeSelector) and that the class allows (allowedTopologies)",
                            selected, cluster->name());
      return Reschedule(claim, storage_class.name(), elsewhere);
    }
  }
  const bool is_copy = !CloneSourceName(claim).empty() || !BlockSnapshotSourceName(claim).empty();
  return is_copy ? ProvisionCopy(claim, storage_class, *plan) : Create(claim, storage_class, *plan);
}

Provisioner::Outcome Provisioner::Create(const Claim& claim, const api::StorageClass& storage_class,
                                         const Plan& plan) {
  // If the class was recreated for another cluster meanwhile, the image that was begun in the old
  // cluster is deleted first.
  const std::string begun_in = claim.annotation(kBegunIn);
  if (claim.has_finalizer(kProvisioningFinalizer) && begun_in != plan.settings.cluster) {
    return DeleteBegunImage(claim);
  }
  const StatusOr<Backends::Ptr> backend = backends_.Of(plan.settings.cluster);
  if (!backend.ok()) return Failed(claim, storage_class.name(), backend.status());
  block::NewImage wanted = plan.image;
  const StatusOr<std::string> source = SourceImage(claim, plan, **backend);
  if (source.status().code() == StatusCode::kUnimplemented) return Outcome::Done();
  if (!source.ok()) return Failed(claim, storage_class.name(), source.status());
  wanted.source = *source;
  if (!claim.has_finalizer(kProvisioningFinalizer)) {
    const Status usable = CheckUsable(plan.settings.cluster, **backend);
    if (!usable.ok()) return Failed(claim, storage_class.name(), usable);
  }
  const StatusOr<Claim> begun = BeginProvisioning(claim, plan);
  if (!begun.ok()) return AfterApi(begun.status());

  const auto create = [&] {
    const ImageProgress progress = ReportCopy(*begun, wanted);
    return Passing<"blockoperator.create">([&] { return (*backend)->Create(wanted); });
  };
  const StatusOr<block::ImageInfo> image =
      CloneSourceName(*begun).empty() ? create() : CreateCopy(*begun, wanted, **backend);
  if (!image.ok()) {
    return Failed(
        *begun, storage_class.name(),
        base::Annotate(image.status(), fmt::format("make image '{}' in StorageCluster '{}'",
                                                   wanted.name, plan.settings.cluster)));
  }
  if (image->size_bytes < wanted.size_bytes) {
    return Failed(*begun, storage_class.name(),
                  base::Error(StatusCode::kOutOfRange,
                              "the back end made an image of {} bytes where {} were asked for",
                              image->size_bytes, wanted.size_bytes));
  }
  return WriteVolume(*begun, VolumeObject(plan, *begun, storage_class, *image));
}

// Asks a storage that is not known to work before anything is begun there, because then its claims
// can be deleted while it does not work. What is begun there must be deleted there.
Status Provisioner::CheckUsable(const std::string& cluster, block::Backend& backend) const {
  const auto object = clusters_.Get(cluster);
  if (object != nullptr && !ReadClusterCondition(*object, kReady).empty()) return base::OkStatus();
  return base::Annotate(CheckAnswers(backend), fmt::format("StorageCluster '{}'", cluster));
}

StatusOr<Provisioner::Claim> Provisioner::BeginProvisioning(const Claim& claim, const Plan& plan) {
  if (claim.has_finalizer(kProvisioningFinalizer)) return claim;
  Json patch = FinalizersPatch(claim, kProvisioningFinalizer, "");
  patch["metadata"]["annotations"][std::string(kBegunIn)] = plan.settings.cluster;
  return PatchAt(context_.client, claims_, claim, std::move(patch));
}

Provisioner::Outcome Provisioner::WriteVolume(const Claim& claim, const Volume& volume) {
  const StatusOr<Volume> created = CreateOrRead(context_.client, volume);
  if (created.ok() && created->claim_uid() != claim.uid()) {
    return Failed(
        claim, volume.storage_class_name(),
        base::Error(StatusCode::kAlreadyExists,
                    "PersistentVolume '{}' exists and belongs to another claim", volume.name()));
  }
  // The image stays, and the next run finds it.
  if (!created.ok()) return AfterApi(base::Annotate(created.status(), "create PersistentVolume"));
  volumes_.Observe(created->json());
  LOG_INFO("image {} in StorageCluster {} is made for claim {}", base::Quote(volume.name()),
           base::Quote(BlockVolumeOf(volume).value_or(BlockVolume()).cluster),
           base::Quote(claim.key()));
  context_.events.Record(claim.reference(), EventType::kNormal, "ProvisioningSucceeded",
                         fmt::format("Successfully provisioned volume {}", volume.name()));
  return Outcome::Done();
}

Provisioner::Outcome Provisioner::DeleteBegunImage(const Claim& claim) {
  const std::string name = VolumeName(claim);
  const Status read = kube::ReadLiveObject(context_.client, volumes_, "", name).status();
  // A PersistentVolume that the informer had not seen names the image, so the image now belongs to
  // that object.
  if (read.ok()) return Release(claim);
  if (read.code() != StatusCode::kNotFound) return AfterApi(read);
  const BlockVolume block{.cluster = claim.annotation(kBegunIn), .image = name};
  const auto failed = [&](const Status& why) {
    context_.events.Record(claim.reference(), EventType::kWarning, "ProvisioningCleanupFailed",
                           fmt::format("delete image '{}' in StorageCluster '{}': {}", name,
                                       block.cluster, base::Message(why)));
  };
  if (block.cluster.empty() || !volumes_.ByIndex(kVolumesByImage, block.image).empty()) {
    return Release(claim);
  }
  const StatusOr<Backends::Ptr> backend = backends_.Of(block.cluster);
  if (backend.status().code() == StatusCode::kNotFound) {
    failed(base::Error(StatusCode::kNotFound,
                       "the StorageCluster is gone; if the image exists it is left there"));
    return Release(claim);
  }
  const Status deleted =
      backend.ok() ? Passing<"blockoperator.delete">([&] { return (*backend)->Delete(name); })
                   : backend.status();
  if (!deleted.ok()) {
    failed(deleted);
    return Outcome::Retry(deleted);
  }
  LOG_INFO("image {} in StorageCluster {} is deleted, which was begun for claim {}",
           base::Quote(name), base::Quote(block.cluster), base::Quote(claim.key()));
  return Release(claim);
}

Provisioner::Outcome Provisioner::Release(const Claim& claim) {
  Json patch = FinalizersPatch(claim, "", kProvisioningFinalizer);
  patch["metadata"]["annotations"][std::string(kBegunIn)] = nullptr;
  return AfterApi(PatchAt(context_.client, claims_, claim, std::move(patch)).status());
}

// Removes the selected node, so that the scheduler chooses again.
Provisioner::Outcome Provisioner::Reschedule(const Claim& claim, const std::string& class_name,
                                             const Status& why) {
  const Outcome failed = Failed(claim, class_name, why);
  const Status written =
      PatchAt(context_.client, claims_, claim,
              {{"metadata", {{"annotations", {{std::string(kSelectedNode), nullptr}}}}}})
          .status();
  return written.ok() ? Outcome::Done() : failed;
}

Provisioner::Outcome Provisioner::Failed(const Claim& claim, const std::string& class_name,
                                         const Status& why) {
  // ABORTED means that another call works on the image, or that this run read an old object.
  // CANCELLED means that this role is to end. Neither needs an event, because the next run may
  // succeed.
  if (why.code() == StatusCode::kAborted || why.code() == StatusCode::kCancelled) {
    return Outcome::Retry(why);
  }
  context_.events.Record(claim.reference(), EventType::kWarning, "ProvisioningFailed",
                         fmt::format("failed to provision volume with StorageClass \"{}\": {}",
                                     class_name, base::Message(why)));
  return Outcome::Retry(why);
}

}  // namespace berth::controllers::blockoperator
