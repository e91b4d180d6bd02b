// Finds or creates the content of a VolumeSnapshot, and binds them (snapshot_controller.h).
#include "api/quantity.h"
#include "api/time.h"
#include "base/log.h"
#include "controllers/claims.h"
#include "controllers/snapshot_names.h"
#include "controllers/snapshotcontroller/class_lookup.h"
#include "controllers/snapshotcontroller/group_members.h"
#include "controllers/snapshotcontroller/snapshot_controller.h"
#include "controllers/writes.h"
#include "kube/informers/live_object.h"

namespace berth::controllers::snapshotcontroller {

using base::Error;
using base::EventType;
using base::Json;
using base::MutexLock;
using base::Status;
using base::StatusCode;
using base::StatusOr;

namespace {

constexpr char kCreationFailed[] = "SnapshotContentCreationFailed";

// Whether the content names this VolumeSnapshot. A uid that is not filled in yet fits any.
bool NamesSnapshot(const api::VolumeSnapshotContent& content, const api::VolumeSnapshot& snapshot) {
  return content.snapshot_key() == snapshot.key() &&
         (content.snapshot_uid().empty() || content.snapshot_uid() == snapshot.uid());
}

// As kube::ReadLiveObject, for a caller to whom the informer's copy shows a failure, because the
// copy may be old. nullptr: there is no such object.
template <typename T>
StatusOr<std::shared_ptr<const T>> FindLiveObject(kube::Client& client, kube::Informer<T>& informer,
                                                  const std::string& ns, const std::string& name) {
  StatusOr<T> live = kube::ReadLiveObject(client, informer, ns, name);
  if (live.status().code() == StatusCode::kNotFound) return std::shared_ptr<const T>();
  RETURN_IF_ERROR(live);
  return std::make_shared<const T>(*std::move(live));
}

bool IsBoundTo(const api::PersistentVolume* volume, const api::PersistentVolumeClaim& claim) {
  return volume != nullptr && volume->has_claim_ref() && RefersTo(*volume, claim);
}

std::string BoundElsewhere(const api::VolumeSnapshotContent& content) {
  return fmt::format("VolumeSnapshotContent [{}] is bound to a different snapshot", content.name());
}

}  // namespace

bool OfApi(const Status& status) { return AfterApi(status).delay.count() >= 0; }

SnapshotController::Outcome SnapshotController::BindDynamic(const Snapshot& snapshot,
                                                            const Class& snapshot_class) {
  if (const auto content = contents_.Get(ContentName(snapshot)); content != nullptr) {
    if (!content->dynamic()) {
      return FailBinding(snapshot, "SnapshotContentMismatch",
                         fmt::format("VolumeSnapshotContent {} is pre-provisioned while expecting "
                                     "a dynamically provisioned one",
                                     content->name()));
    }
    if (!NamesSnapshot(*content, snapshot) || content->snapshot_uid().empty()) {
      return FailBinding(snapshot, "SnapshotContentMisbound", BoundElsewhere(*content));
    }
    const StatusOr<Snapshot> held = HoldSnapshot(snapshot, content->delete_with_snapshot());
    return held.ok() ? CopyStatus(*held, *content) : AfterApi(held.status());
  }
  if (snapshot.creation_time().empty()) return TakeSnapshot(snapshot, snapshot_class);
  // No new content is created, because a snapshot taken now would have other data under the old
  // name.
  const StatusOr<Snapshot> held = HoldSnapshot(snapshot, false);
  if (!held.ok()) return AfterApi(held.status());
  return Fail(*held, "SnapshotContentMissing", "VolumeSnapshotContent is missing");
}

SnapshotController::Outcome SnapshotController::TakeSnapshot(const Snapshot& snapshot,
                                                             const Class& snapshot_class) {
  const auto refuse = [&](const Status& status) {
    if (OfApi(status)) return AfterApi(status);
    return Fail(
        snapshot, kCreationFailed,
        fmt::format("Failed to create snapshot content with error {}", base::Message(status)));
  };
  const StatusOr<Content> wanted = NewContent(snapshot, snapshot_class);
  // Snapshot and claim are held also while the snapshot cannot be taken yet.
  const StatusOr<Snapshot> held =
      HoldSnapshot(snapshot, wanted.ok() && wanted->delete_with_snapshot());
  if (!held.ok()) return AfterApi(held.status());
  const Status claim_held = HoldClaim(api::ObjectKey(snapshot.ns(), snapshot.source_claim()));
  if (!wanted.ok()) return refuse(wanted.status());
  if (!claim_held.ok()) return refuse(claim_held);
  const StatusOr<Content> content = CreateContent(snapshot, *wanted);
  if (!content.ok()) return refuse(content.status());
  return CopyStatus(*held, *content);
}

StatusOr<std::shared_ptr<const api::PersistentVolume>> SnapshotController::VolumeOf(
    const Snapshot& snapshot) const {
  auto claim = claims_.Get(snapshot.ns(), snapshot.source_claim());
  if (claim == nullptr || claim->phase() != "Bound") {
    ASSIGN_OR_RETURN(
        claim, FindLiveObject(context_.client, claims_, snapshot.ns(), snapshot.source_claim()));
  }
  if (claim == nullptr) {
    return Error(StatusCode::kNotFound, "the PVC {} does not exist", snapshot.source_claim());
  }
  if (claim->phase() != "Bound") {
    return Error(StatusCode::kFailedPrecondition,
                 "the PVC {} is not yet bound to a PV, will not attempt to take a snapshot",
                 claim->name());
  }
  auto volume = volumes_.Get(claim->volume_name());
  if (!IsBoundTo(volume.get(), *claim) && !claim->volume_name().empty()) {
    ASSIGN_OR_RETURN(volume, FindLiveObject(context_.client, volumes_, "", claim->volume_name()));
  }
  if (!IsBoundTo(volume.get(), *claim)) {
    return Error(StatusCode::kFailedPrecondition,
                 "claim in dataSource not bound or invalid: its "
                 "volume '{}' is not bound to it",
                 claim->volume_name());
  }
  if (!volume->has_csi()) {
    return Error(StatusCode::kInvalidArgument,
                 "cannot find CSI PersistentVolumeSource for volume {}", volume->name());
  }
  return volume;
}

Status SnapshotController::HoldClaim(const std::string& key) {
  {
    MutexLock lock(mutex_);
    if (releasing_.contains(key)) {
      return Error(StatusCode::kAborted, "the finalizer of claim '{}' is being removed", key);
    }
  }
  const auto claim = claims_.Get(key);
  if (claim == nullptr) return Error(StatusCode::kFailedPrecondition, "the PVC {} is gone", key);
  if (claim->has_finalizer(kClaimSourceProtection)) return base::OkStatus();
  if (claim->deleting()) {
    return Error(StatusCode::kFailedPrecondition,
                 "cannot add finalizer on claim {} because it is being deleted", claim->name());
  }
  return UpdateAt(context_.client, claims_, *claim,
                  FinalizersPatch(*claim, kClaimSourceProtection, ""))
      .status();
}

StatusOr<api::VolumeSnapshotContent> SnapshotController::NewContent(
    const Snapshot& snapshot, const Class& snapshot_class) const {
  ASSIGN_OR_RETURN(const std::shared_ptr<const Volume> source, VolumeOf(snapshot));
  const Volume& volume = *source;
  // Another driver may have another volume under the same handle.
  if (volume.csi().driver() != snapshot_class.driver()) {
    return Error(StatusCode::kInvalidArgument,
                 "VolumeSnapshotClass '{}' is of driver '{}', and volume '{}' of '{}'",
                 snapshot_class.name(), snapshot_class.driver(), volume.name(),
                 volume.csi().driver());
  }
  Content content;
  content.Set({"apiVersion"}, Content::kInfo.api_version());
  content.Set({"kind"}, std::string(Content::kInfo.kind));
  content.set_name(ContentName(snapshot));
  content.add_finalizer(kContentProtection);
  ASSIGN_OR_RETURN(const api::SecretReference secret,
                   SnapshotClassSecret(snapshot_class.parameters(), SnapshotSecret::kSnapshotter,
                                       content.name(), &snapshot));
  if (!secret.empty()) {
    content.set_annotation(kSnapshotSecretName, secret.name);
    content.set_annotation(kSnapshotSecretNamespace, secret.ns);
  }
  if (nodes_ != nullptr && volume.node_affinity() != nullptr) {
    if (const std::string node = FindManagingNode(volume); !node.empty()) {
      content.set_label(kManagedByNode, node);
    }
  }
  Json spec = {{"driver", snapshot_class.driver()},
               {"deletionPolicy", snapshot_class.deletion_policy()},
               {"volumeSnapshotClassName", snapshot_class.name()},
               {"source", {{"volumeHandle", volume.csi().volume_handle()}}},
               {"volumeSnapshotRef",
                {{"apiVersion", Snapshot::kInfo.api_version()},
                 {"kind", std::string(Snapshot::kInfo.kind)},
                 {"namespace", snapshot.ns()},
                 {"name", snapshot.name()},
                 {"uid", snapshot.uid()},
                 {"resourceVersion", snapshot.resource_version()}}}};
  if (options_.prevent_volume_mode_conversion) spec["sourceVolumeMode"] = volume.volume_mode();
  content.Set({"spec"}, std::move(spec));
  return content;
}

std::string SnapshotController::FindManagingNode(const Volume& volume) const {
  for (const auto& node : nodes_->List()) {
    if (VolumeReachableFrom(volume, *node)) return node->name();
  }
  LOG_WARNING("no node can reach volume {}: its snapshot is left to a snapshotter without a node",
              base::Quote(volume.name()));
  return "";
}

StatusOr<api::VolumeSnapshotContent> SnapshotController::CreateContent(const Snapshot& snapshot,
                                                                       const Content& wanted) {
  StatusOr<Content> created = CreateOrRead(context_.client, wanted);
  if (created.ok() && created->snapshot_uid() != snapshot.uid()) {
    return Error(StatusCode::kFailedPrecondition, "{}", BoundElsewhere(*created));
  }
  if (!created.ok()) {
    if (!OfApi(created.status())) {
      context_.events.Record(snapshot.reference(), EventType::kWarning,
                             "CreateSnapshotContentFailed",
                             fmt::format("Error creating volume snapshot content object for "
                                         "snapshot {}: {}",
                                         snapshot.key(), base::Message(created.status())));
    }
    return created.status();
  }
  contents_.Observe(created->json());
  LOG_INFO("snapshot {} has the content {}: its driver is asked for it",
           base::Quote(snapshot.key()), base::Quote(created->name()));
  context_.events.Record(
      snapshot.reference(), EventType::kNormal, "CreatingSnapshot",
      fmt::format("Waiting for a snapshot {} to be created by the CSI driver.", snapshot.key()));
  return created;
}

SnapshotController::Outcome SnapshotController::BindExisting(const Snapshot& snapshot) {
  const auto content = contents_.Get(snapshot.source_content());
  if (content != nullptr && content->source_snapshot_handle().empty()) {
    return FailBinding(snapshot, "SnapshotContentMismatch",
                       "VolumeSnapshotContent is dynamically provisioned while expecting a "
                       "pre-provisioned one");
  }
  if (content != nullptr && !NamesSnapshot(*content, snapshot)) {
    return FailBinding(snapshot, "SnapshotContentMisbound", BoundElsewhere(*content));
  }
  const StatusOr<Snapshot> held =
      HoldSnapshot(snapshot, content != nullptr && content->delete_with_snapshot());
  if (!held.ok()) return AfterApi(held.status());
  if (content == nullptr) {
    return Fail(*held, "SnapshotContentMissing", "VolumeSnapshotContent is missing");
  }
  if (content->snapshot_uid().empty() && content->deleting()) {
    return Fail(*held, "SnapshotBindFailed",
                "Snapshot failed to bind VolumeSnapshotContent, which is being deleted");
  }
  const StatusOr<Content> bound = BindContent(*held, *content);
  if (bound.ok()) return CopyStatus(*held, *bound);
  if (OfApi(bound.status())) return AfterApi(bound.status());
  return Fail(*held, "SnapshotBindFailed",
              fmt::format("Snapshot failed to bind VolumeSnapshotContent, {}",
                          base::Message(bound.status())));
}

SnapshotController::Outcome SnapshotController::BindMember(const Snapshot& snapshot) {
  const StatusOr<Snapshot> held = HoldSnapshot(snapshot, false);
  if (!held.ok()) return AfterApi(held.status());
  const auto content = contents_.Get(snapshot.content_name());
  if (content == nullptr && snapshot.ready()) {
    return Fail(*held, "SnapshotContentMissing", "VolumeSnapshotContent is missing");
  }
  // The group's controller still makes the content or binds it, and each of its writes queues the
  // snapshot again.
  if (content == nullptr || content->snapshot_uid().empty()) return Outcome::Done();
  if (NamesSnapshot(*content, snapshot)) return CopyStatus(*held, *content);
  if (!snapshot.ready()) {
    return Fail(*held, "SnapshotContentMisbound", BoundElsewhere(*content));
  }
  return Fail(*held, "SnapshotMisbound",
              "VolumeSnapshotContent is not bound to the VolumeSnapshot correctly");
}

StatusOr<std::string> SnapshotController::FindGroupName(const Snapshot& snapshot,
                                                        const Content& content) const {
  const std::string handle = content.group_handle();
  if (handle.empty() || group_contents_ == nullptr || !group_contents_->CheckListed().ok()) {
    return std::string();
  }
  const auto candidates =
      group_contents_->ByIndex(kContentsByGroup, api::ObjectKey(content.driver(), handle));
  if (candidates.empty()) {
    return Error(StatusCode::kNotFound, "no VolumeGroupSnapshotContent has the handle '{}'",
                 handle);
  }
  const std::string owner = OwningGroupUid(snapshot);
  std::string name;
  for (const auto& candidate : candidates) {
    // A content that was kept (policy Retain) still names its group, which is gone. The group of
    // another namespace is not the snapshot's either.
    const auto group = groups_->Get(candidate->group_key());
    if (group == nullptr || group->uid() != candidate->group_uid()) continue;
    if (group->ns() != snapshot.ns() || (!owner.empty() && group->uid() != owner)) continue;
    if (name.empty() || group->name() < name) name = group->name();
  }
  return name;
}

Status SnapshotController::AdoptByGroup(const Snapshot& snapshot) {
  if (groups_ == nullptr || snapshot.group_name().empty() || !OwningGroup(snapshot).empty()) {
    return base::OkStatus();
  }
  const auto group = groups_->Get(snapshot.ns(), snapshot.group_name());
  if (group == nullptr) {
    return Error(StatusCode::kFailedPrecondition, "missing parent group for snapshot {}",
                 snapshot.key());
  }
  Json owners = base::json::Array(snapshot.json(), {"metadata", "ownerReferences"});
  if (!owners.is_array()) owners = Json::array();
  owners.push_back(OwnerReferenceTo(*group));
  return PatchAt(context_.client, snapshots_, snapshot,
                 {{"metadata", {{"ownerReferences", std::move(owners)}}}})
      .status();
}

StatusOr<api::VolumeSnapshotContent> SnapshotController::BindContent(const Snapshot& snapshot,
                                                                     const Content& content) {
  Json spec = Json::object();
  const bool unbound = content.snapshot_uid().empty();
  if (unbound) spec["volumeSnapshotRef"]["uid"] = snapshot.uid();
  if ((unbound || content.class_name().empty()) && !snapshot.class_name().empty()) {
    spec["volumeSnapshotClassName"] = snapshot.class_name();
  }
  const bool hold = !content.deleting() && !content.has_finalizer(kContentProtection);
  if (spec.empty() && !hold) return content;
  Json patch = hold ? FinalizersPatch(content, kContentProtection, "") : Json::object();
  patch["spec"] = std::move(spec);
  return PatchAt(context_.client, contents_, content, std::move(patch));
}

StatusOr<api::VolumeSnapshot> SnapshotController::HoldSnapshot(const Snapshot& snapshot,
                                                               bool until_content_goes) {
  Snapshot held = snapshot;
  held.add_finalizer(kSnapshotSourceProtection);
  if (until_content_goes) held.add_finalizer(kSnapshotBoundProtection);
  if (held.finalizers() == snapshot.finalizers()) return snapshot;
  StatusOr<Snapshot> written = PatchAt(context_.client, snapshots_, snapshot,
                                       {{"metadata", {{"finalizers", held.finalizers()}}}});
  if (!written.ok() && !OfApi(written.status())) {
    context_.events.Record(
        snapshot.reference(), EventType::kWarning, "SnapshotFinalizerError",
        fmt::format("Failed to check and update snapshot: {}", base::Message(written.status())));
  }
  return written;
}

SnapshotController::Outcome SnapshotController::CopyStatus(const Snapshot& snapshot,
                                                           const Content& content) {
  Json status = {{"boundVolumeSnapshotContentName", content.name()},
                 {"readyToUse", content.ready()},
                 {"error", nullptr}};
  const bool cut = content.has_creation_time() && !content.snapshot_handle().empty() &&
                   snapshot.creation_time().empty();
  if (cut) {
    status["creationTime"] =
        api::FormatTime(base::WallTime(std::chrono::nanoseconds(content.creation_nanoseconds())));
  }
  if (const auto bytes = content.restore_bytes(); bytes.has_value()) {
    status["restoreSize"] = api::FormatBytes(*bytes);
  }
  if (!content.ready() && !content.error().empty()) {
    status["error"] = base::json::Map(content.json(), {"status", "error"});
  }
  if (snapshot.group_name().empty()) {
    const StatusOr<std::string> group = FindGroupName(snapshot, content);
    if (group.ok() && !group->empty()) status["volumeGroupSnapshotName"] = *group;
    if (!group.ok() && !snapshot.ready()) {
      return Fail(
          snapshot, "SnapshotStatusUpdateFailed",
          fmt::format("Snapshot status update failed, updateSnapshotStatus: cannot find the "
                      "group snapshot for VolumeSnapshot [{}], will not update snapshot "
                      "status",
                      snapshot.key()));
    }
  }
  const Json patch = {{"status", std::move(status)}};
  if (!WouldChange(snapshot, patch)) return AfterApi(AdoptByGroup(snapshot));
  const Status written = PatchAt(context_.client, snapshots_, snapshot, patch, "status").status();
  if (!written.ok()) {
    if (!OfApi(written) && written.code() != StatusCode::kNotFound) {
      context_.events.Record(
          snapshot.reference(), EventType::kWarning, "SnapshotStatusUpdateFailed",
          fmt::format("Snapshot status update failed, {}", base::Message(written)));
    }
    return AfterApi(written);
  }
  if (cut) {
    context_.events.Record(
        snapshot.reference(), EventType::kNormal, "SnapshotCreated",
        fmt::format("Snapshot {} was successfully created by the CSI driver.", snapshot.key()));
  }
  if (content.ready() && !snapshot.ready()) {
    context_.events.Record(snapshot.reference(), EventType::kNormal, "SnapshotReady",
                           fmt::format("Snapshot {} is ready to use.", snapshot.key()));
  }
  return Outcome::Done();
}

}  // namespace berth::controllers::snapshotcontroller
