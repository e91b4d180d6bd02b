// Deletes the content of a deleted VolumeSnapshot, and releases the VolumeSnapshot
// (snapshot_controller.h).
#include <algorithm>

#include "base/log.h"
#include "controllers/snapshot_names.h"
#include "controllers/snapshotcontroller/group_members.h"
#include "controllers/snapshotcontroller/snapshot_controller.h"
#include "controllers/writes.h"

namespace berth::controllers::snapshotcontroller {

using base::Error;
using base::EventType;
using base::Status;
using base::StatusCode;
using base::StatusOr;

SnapshotController::Outcome SnapshotController::Delete(const Snapshot& snapshot) {
  if (!snapshot.has_finalizer(kSnapshotSourceProtection) &&
      !snapshot.has_finalizer(kSnapshotBoundProtection) &&
      !snapshot.has_finalizer(kInGroupProtection)) {
    return Outcome::Done();
  }
  StatusOr<Content> content = ContentOf(snapshot);
  const bool lost = content.status().code() == StatusCode::kNotFound;
  if (!content.ok() && !lost) return AfterApi(content.status());
  if (!lost && IsBeingRestored(snapshot)) {
    context_.events.Record(snapshot.reference(), EventType::kWarning, "SnapshotDeletePending",
                           "Snapshot is being used to restore a PVC");
    return Outcome::Done();  // the claim's binding or end queues the snapshot again
  }
  if (const Status gone = CheckGroupIsGone(snapshot); !gone.ok()) {
    const bool unseen = gone.code() == StatusCode::kUnimplemented;
    if (!unseen && gone.code() != StatusCode::kFailedPrecondition) return AfterApi(gone);
    context_.events.Record(snapshot.reference(), EventType::kWarning, "SnapshotDeletePending",
                           base::Message(gone));
    // The end of a group that is seen queues the snapshot again.
    return unseen ? Outcome::Retry(gone) : Outcome::Done();
  }
  if (lost) return ReleaseSnapshot(snapshot, false);
  if (!content->has_annotation(kBeingDeleted)) {
    // This is written for each policy, because a person may later delete a content that was kept.
    content = PatchAt(context_.client, contents_, *content,
                      {{"metadata", {{"annotations", {{std::string(kBeingDeleted), "yes"}}}}}});
    if (!content.ok()) return AfterApi(content.status());
  }
  if (!content->delete_with_snapshot()) return ReleaseSnapshot(snapshot, false);
  if (!content->deleting()) {
    const Status deleted = DeleteContent(snapshot, *content);
    if (!deleted.ok() && deleted.code() != StatusCode::kNotFound) return AfterApi(deleted);
  }
  return ReleaseSnapshot(snapshot, true);  // the content's end queues the snapshot again
}

Status SnapshotController::DeleteContent(const Snapshot& snapshot, const Content& content) {
  const Status deleted = kube::Delete(context_.client, content);
  if (deleted.ok()) {
    LOG_INFO("the content {} of snapshot {} is deleted, because the snapshot is",
             base::Quote(content.name()), base::Quote(snapshot.key()));
  } else if (deleted.code() != StatusCode::kNotFound && !OfApi(deleted)) {
    context_.events.Record(
        snapshot.reference(), EventType::kWarning, "SnapshotContentObjectDeleteError",
        fmt::format("Failed to delete snapshot content API object: {}", base::Message(deleted)));
  }
  return deleted;
}

StatusOr<api::VolumeSnapshotContent> SnapshotController::ContentOf(const Snapshot& snapshot) {
  std::string name = snapshot.source_content();
  if (name.empty() && !OwningGroup(snapshot).empty()) {
    name = snapshot.content_name();
    if (name.empty()) name = MemberContentName(snapshot);
  }
  if (name.empty()) name = ContentName(snapshot);
  const auto known = contents_.Get(name);
  // The API is asked, because the content may exist already, although the answer was lost.
  StatusOr<Content> content =
      known != nullptr ? *known : kube::Get<Content>(context_.client, "", name);
  if (content.ok() &&
      (content->snapshot_uid() != snapshot.uid() || content->snapshot_key() != snapshot.key())) {
    return Error(StatusCode::kNotFound, "content '{}' is bound to another snapshot", name);
  }
  return content;
}

bool SnapshotController::IsBeingRestored(const Snapshot& snapshot) const {
  const auto claims = claims_.ByIndex(kClaimsBySnapshot, snapshot.key());
  return std::any_of(claims.begin(), claims.end(),
                     [](const auto& claim) { return claim->phase() == "Pending"; });
}

Status SnapshotController::CheckGroupIsGone(const Snapshot& snapshot) {
  const std::string owner = OwningGroup(snapshot);
  std::string name = snapshot.group_name();
  if (name.empty()) name = owner;
  if (name.empty()) return base::OkStatus();
  // A new group may have the name of the group that is gone.
  const std::string uid = name == owner ? OwningGroupUid(snapshot) : "";
  const auto is_new = [&](const api::VolumeGroupSnapshot& group) {
    return !uid.empty() && group.uid() != uid;
  };
  const std::string key = api::ObjectKey(snapshot.ns(), name);
  const auto known = groups_ == nullptr ? nullptr : groups_->Get(key);
  if (known == nullptr || is_new(*known)) {
    const StatusOr<api::VolumeGroupSnapshot> group =
        kube::Get<api::VolumeGroupSnapshot>(context_.client, snapshot.ns(), name);
    if (group.status().code() == StatusCode::kNotFound) return CheckGroupsAreServed(snapshot, key);
    RETURN_IF_ERROR(group.status());
    if (is_new(*group)) return base::OkStatus();
  }
  return Error(
      StatusCode::kFailedPrecondition,
      "deletion of the individual volume snapshot {} is not allowed as it belongs to group "
      "snapshot {}. Deleting the group snapshot will trigger the deletion of all the "
      "individual volume snapshots that are part of the group.",
      snapshot.key(), key);
}

Status SnapshotController::CheckGroupsAreServed(const Snapshot& snapshot, const std::string& key) {
  using Group = api::VolumeGroupSnapshot;
  kube::ListOptions one;
  one.limit = 1;
  const Status listed = context_.client.List(Group::kInfo, snapshot.ns(), one).status();
  if (listed.code() != StatusCode::kNotFound) return listed;
  return Error(StatusCode::kUnimplemented,
               "volume snapshot {} belongs to group snapshot {}, and it is not known whether the "
               "group is gone, because the API server does not serve {} in version {}. Serve this "
               "version, or remove the finalizer {} from the snapshot if the group is gone.",
               snapshot.key(), key, Group::kInfo.plural, Group::kInfo.api_version(),
               kInGroupProtection);
}

SnapshotController::Outcome SnapshotController::ReleaseSnapshot(const Snapshot& snapshot,
                                                                bool content_goes) {
  Snapshot free = snapshot;
  free.remove_finalizer(kSnapshotSourceProtection);
  free.remove_finalizer(kInGroupProtection);
  if (!content_goes) free.remove_finalizer(kSnapshotBoundProtection);
  if (free.finalizers() == snapshot.finalizers()) return Outcome::Done();
  return AfterApi(PatchAt(context_.client, snapshots_, snapshot,
                          {{"metadata", {{"finalizers", free.finalizers()}}}})
                      .status());
}

}  // namespace berth::controllers::snapshotcontroller
