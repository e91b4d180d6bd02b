// Makes the group snapshot of a content, or adopts one that exists, and writes its state
// (group_snapshotter.h).
#include <set>

#include "api/time.h"
#include "base/log.h"
#include "controllers/csi_codec.h"
#include "controllers/snapshot_names.h"
#include "controllers/snapshotter/content_report.h"
#include "controllers/snapshotter/creation_record.h"
#include "controllers/snapshotter/driver_answers.h"
#include "controllers/snapshotter/group_snapshotter.h"
#include "controllers/writes.h"

namespace berth::controllers::snapshotter {

using base::Error;
using base::Json;
using base::Status;
using base::StatusCode;
using base::StatusOr;

namespace {

constexpr char kCheckFailed[] = "GroupSnapshotContentCheckandUpdateFailed";

// Whether the answer can be recorded. Each volume must have a snapshot, because the controller
// makes the VolumeSnapshots of the group from them. Two PersistentVolumes may show one volume, of
// which the driver may take one snapshot or two.
Status CheckAnswer(const api::VolumeGroupSnapshotContent& content,
                   const csi::v1::VolumeGroupSnapshot& group) {
  if (group.group_snapshot_id().empty()) {
    return Error(StatusCode::kInternal, "the driver gave the group snapshot no id");
  }
  const std::string known = content.group_handle();
  if (!known.empty() && known != group.group_snapshot_id()) {
    return Error(StatusCode::kInternal,
                 "the driver gave group snapshot '{}' in place of '{}' for the same name",
                 group.group_snapshot_id(), known);
  }
  const std::vector<std::string> asked = content.source_volume_handles();
  const size_t volumes = std::set<std::string>(asked.begin(), asked.end()).size();
  const auto given = static_cast<size_t>(group.snapshots_size());
  if (given < volumes || given > asked.size()) {
    return Error(StatusCode::kInternal,
                 "the driver gave {} snapshots in group snapshot '{}' of {} volumes", given,
                 group.group_snapshot_id(), volumes);
  }
  for (const csi::v1::Snapshot& snapshot : group.snapshots()) {
    if (!snapshot.snapshot_id().empty()) continue;
    return Error(StatusCode::kInternal, "the driver gave a snapshot of group snapshot '{}' no id",
                 group.group_snapshot_id());
  }
  return base::OkStatus();
}

Json DescribeSnapshots(const csi::v1::VolumeGroupSnapshot& group) {
  Json infos = Json::array();
  for (const csi::v1::Snapshot& snapshot : group.snapshots()) {
    if (snapshot.snapshot_id().empty()) continue;
    Json info = {{"volumeHandle", snapshot.source_volume_id()},
                 {"snapshotHandle", snapshot.snapshot_id()},
                 {"readyToUse", snapshot.ready_to_use()}};
    if (snapshot.has_creation_time()) {
      if (const auto time = ReadNanoseconds(snapshot.creation_time())) info["creationTime"] = *time;
    }
    if (snapshot.size_bytes() > 0) info["restoreSize"] = snapshot.size_bytes();
    infos.push_back(std::move(info));
  }
  return infos;
}

}  // namespace

GroupSnapshotter::Outcome GroupSnapshotter::CreateGroup(const Content& content) {
  const StatusOr<csi::v1::CreateVolumeGroupSnapshotRequest> request = MakeRequest(content);
  if (!request.ok()) {
    if (IsOfApi(request.status())) return AfterApi(request.status());
    ReportCreationError(content, fmt::format("failed to get input parameters to create group "
                                             "snapshot for group snapshot content {}: {}",
                                             content.name(), base::Message(request.status())));
    return Outcome::Retry(request.status());
  }
  const StatusOr<Content> marked = RecordCreation(context_.client, contents_, content);
  if (!marked.ok()) return AfterApi(marked.status());
  const StatusOr<csi::v1::CreateVolumeGroupSnapshotResponse> response =
      driver_.Call(&rpc::CsiClient::CreateVolumeGroupSnapshot, *request, options_.timeout);
  if (!response.ok()) return ReportFailedCreation(*marked, OfDriver(response.status()));
  if (const Status checked = CheckAnswer(*marked, response->group_snapshot()); !checked.ok()) {
    // An answer that fails the check is still recorded if the content is being deleted, because the
    // driver deletes a group snapshot only by its handle.
    const bool being_deleted = marked->deleting() && marked->has_annotation(kGroupBeingDeleted);
    const bool has_handle = !response->group_snapshot().group_snapshot_id().empty();
    if (!being_deleted || !has_handle || !marked->group_handle().empty()) {
      return RefuseAnswer(*marked, checked, has_handle);
    }
  }
  return WriteGroup(*marked, response->group_snapshot());
}

StatusOr<csi::v1::CreateVolumeGroupSnapshotRequest> GroupSnapshotter::MakeRequest(
    const Content& content) {
  ASSIGN_OR_RETURN(const std::shared_ptr<const Class> group_class, ClassOf(content));
  if (group_class == nullptr) {
    return Error(StatusCode::kInvalidArgument,
                 "failed to take group snapshot {} without a group snapshot class", content.name());
  }
  const std::string uid = content.group_uid();
  if (uid.empty()) {
    return Error(StatusCode::kInvalidArgument,
                 "spec.volumeGroupSnapshotRef.uid is empty, but the name of the group snapshot is "
                 "made from it");
  }
  csi::v1::CreateVolumeGroupSnapshotRequest request;
  request.set_name(
      MakeSnapshotName(options_.group_name_prefix, uid, options_.group_name_uuid_length));
  for (const std::string& volume : content.source_volume_handles()) {
    request.add_source_volume_ids(volume);
  }
  ASSIGN_OR_RETURN(const api::Labels parameters,
                   SnapshotDriverParameters(group_class->parameters()));
  CopyTo(parameters, request.mutable_parameters());
  if (options_.extra_create_metadata) {
    auto& metadata = *request.mutable_parameters();
    metadata["csi.storage.k8s.io/volumegroupsnapshot/name"] = content.group_name();
    metadata["csi.storage.k8s.io/volumegroupsnapshot/namespace"] = content.group_namespace();
    metadata["csi.storage.k8s.io/volumegroupsnapshotcontent/name"] = content.name();
  }
  ASSIGN_OR_RETURN(const auto secrets, ReadSecrets(content));
  CopyTo(secrets, request.mutable_secrets());
  return request;
}

GroupSnapshotter::Outcome GroupSnapshotter::ReportFailedCreation(const Content& content,
                                                                 const Status& status) {
  const StatusOr<Content> recorded =
      RecordFailedCreation(context_.client, contents_, content, status);
  if (!recorded.ok()) return AfterApi(recorded.status());
  ReportCreationError(
      content, fmt::format("failed to take group snapshot of the volumes [{}]: {}",
                           fmt::join(content.source_volume_handles(), " "), QuotedFailure(status)));
  return AfterFailedCreation(*recorded, status);
}

GroupSnapshotter::Outcome GroupSnapshotter::RefuseAnswer(const Content& content, const Status& why,
                                                         bool has_id) {
  const StatusOr<Content> recorded =
      has_id ? content : RemoveRecord(context_.client, contents_, content);
  if (!recorded.ok()) return AfterApi(recorded.status());
  ReportCreationError(content, base::Message(why));
  return AfterFailedCreation(*recorded, why);
}

void GroupSnapshotter::ReportCreationError(const Content& content, std::string_view why) {
  if (content.has_status()) {
    ReportError(content, kCheckFailed,
                fmt::format("Failed to check and update group snapshot content: {}", why));
  } else {
    ReportError(content, "GroupSnapshotCreationFailed",
                fmt::format("Failed to create group snapshot: {}", why));
  }
}

GroupSnapshotter::Outcome GroupSnapshotter::AdoptGroup(const Content& content) {
  const StatusOr<csi::v1::VolumeGroupSnapshot> found = FindGroup(content);
  if (!found.ok()) {
    if (IsOfApi(found.status())) return AfterApi(found.status());
    ReportError(content, kCheckFailed,
                fmt::format("Failed to check and update group snapshot content: {}",
                            FailureText(found.status())));
    return Outcome::Retry(found.status());
  }
  return WriteGroup(content, *found);
}

StatusOr<csi::v1::VolumeGroupSnapshot> GroupSnapshotter::FindGroup(const Content& content) {
  const std::string handle = content.source_group_handle();
  csi::v1::GetVolumeGroupSnapshotRequest request;
  request.set_group_snapshot_id(handle);
  for (const std::string& snapshot : content.source_snapshot_handles()) {
    request.add_snapshot_ids(snapshot);
  }
  if (request.snapshot_ids().empty()) {
    return Error(StatusCode::kInvalidArgument,
                 "cannot list group snapshot {}. No snapshots found in the group snapshot content",
                 content.name());
  }
  ASSIGN_OR_RETURN(const std::shared_ptr<const Class> group_class, ClassOf(content));
  if (group_class != nullptr) {
    ASSIGN_OR_RETURN(
        const api::SecretReference secret,
        GroupClassSecret(group_class->parameters(), GroupSecret::kGet, content.name(), nullptr));
    ASSIGN_OR_RETURN(const auto secrets, ReadSecret(context_.client, secret));
    CopyTo(secrets, request.mutable_secrets());
  }
  const StatusOr<csi::v1::GetVolumeGroupSnapshotResponse> response =
      driver_.Call(&rpc::CsiClient::GetVolumeGroupSnapshot, request, options_.timeout);
  if (!response.ok()) return OfDriver(response.status());
  if (response->group_snapshot().group_snapshot_id() != handle) {
    return Error(StatusCode::kInternal,
                 "the driver answered with group snapshot '{}' when it was asked for '{}'",
                 response->group_snapshot().group_snapshot_id(), handle);
  }
  return response->group_snapshot();
}

GroupSnapshotter::Outcome GroupSnapshotter::WriteGroup(const Content& content,
                                                       const csi::v1::VolumeGroupSnapshot& group) {
  Json status = {{"readyToUse", group.ready_to_use()}};
  if (group.ready_to_use()) status["error"] = nullptr;
  const bool has_handle = !content.group_handle().empty();
  if (!has_handle) {
    status["volumeGroupSnapshotHandle"] = group.group_snapshot_id();
  }
  if (content.creation_time().empty()) {
    const auto time = group.has_creation_time() ? ReadNanoseconds(group.creation_time())
                                                : std::optional<int64_t>();
    status["creationTime"] = api::FormatTime(
        time.has_value() ? base::WallTime(std::chrono::nanoseconds(*time)) : context_.clock.Now());
  }
  // The person who made a content for a group snapshot that exists makes its VolumeSnapshots, too.
  // A list without a handle belongs to a group snapshot that was deleted, so it is replaced.
  if (!content.existing() && (!has_handle || content.snapshot_infos().empty())) {
    status["volumeSnapshotInfoList"] = DescribeSnapshots(group);
  }
  const Json patch = {{"status", std::move(status)}};
  StatusOr<Content> written = content;
  if (WouldChange(content, patch)) {
    written = Patch(context_.client, contents_, content, patch, "status");
    if (!written.ok()) return AfterApi(written.status());
  }
  written = RemoveRecord(context_.client, contents_, *written);
  if (!written.ok()) return AfterApi(written.status());
  if (!group.ready_to_use()) return queue_.AskLater(content);
  LOG_INFO("group snapshot {} is ready as VolumeGroupSnapshotContent {}",
           base::Quote(group.group_snapshot_id()), base::Quote(content.name()));
  return Outcome::Done();
}

}  // namespace berth::controllers::snapshotter
