// From a content to a snapshot of the driver that is ready to use (snapshotter.h).
#include "base/log.h"
#include "controllers/csi_codec.h"
#include "controllers/snapshot_names.h"
#include "controllers/snapshotter/content_report.h"
#include "controllers/snapshotter/creation_record.h"
#include "controllers/snapshotter/driver_answers.h"
#include "controllers/snapshotter/snapshotter.h"
#include "controllers/writes.h"

namespace berth::controllers::snapshotter {

using base::Error;
using base::EventType;
using base::Json;
using base::Status;
using base::StatusCode;
using base::StatusOr;

Snapshotter::Outcome Snapshotter::CreateSnapshot(const Content& content, const DriverInfo& driver) {
  if (!driver.Has(DriverInfo::Rpc::CREATE_DELETE_SNAPSHOT)) {
    const Status cannot =
        Error(StatusCode::kUnimplemented, "driver '{}' cannot take snapshots", driver.name);
    ReportError(content, "SnapshotCreationFailed",
                fmt::format("Failed to create snapshot: {}", base::Message(cannot)));
    return Outcome::After(options_.retry_max);
  }
  const StatusOr<csi::v1::CreateSnapshotRequest> request = MakeRequest(content);
  if (!request.ok()) {
    if (IsOfApi(request.status())) return AfterApi(request.status());
    ReportError(content, "SnapshotCreationFailed",
                fmt::format("Failed to create snapshot: failed to get input parameters to create "
                            "snapshot for content {}: {}",
                            content.name(), base::Message(request.status())));
    return Outcome::Retry(request.status());
  }
  const bool first = !content.has_annotation(kBeingCreated);
  const StatusOr<Content> marked =
      RecordCreation(context_.client, contents_, content, DigestRequest(*request));
  if (!marked.ok()) return AfterApi(marked.status());
  const StatusOr<csi::v1::CreateSnapshotResponse> response =
      driver_.Call(&rpc::CsiClient::CreateSnapshot, *request, options_.timeout);
  if (!response.ok()) return ReportFailedCreation(*marked, OfDriver(response.status()), first);
  if (const Status checked = CheckAnswer(*marked, response->snapshot()); !checked.ok()) {
    return RefuseAnswer(*marked, checked);
  }
  return WriteSnapshot(*marked, response->snapshot());
}

StatusOr<csi::v1::CreateSnapshotRequest> Snapshotter::MakeRequest(const Content& content) {
  if (content.class_name().empty()) {
    return Error(StatusCode::kInvalidArgument, "the content names no VolumeSnapshotClass");
  }
  const auto snapshot_class = classes_.Get(content.class_name());
  if (snapshot_class == nullptr) {
    return Error(StatusCode::kNotFound, "VolumeSnapshotClass '{}' does not exist",
                 content.class_name());
  }
  const std::string uid = content.snapshot_uid();
  if (uid.empty()) {
    return Error(
        StatusCode::kInvalidArgument,
        "spec.volumeSnapshotRef.uid is empty, but the name of the snapshot is made from it");
  }
  csi::v1::CreateSnapshotRequest request;
  request.set_name(
      MakeSnapshotName(options_.snapshot_name_prefix, uid, options_.snapshot_name_uuid_length));
  request.set_source_volume_id(content.source_volume_handle());
  ASSIGN_OR_RETURN(const api::Labels parameters,
                   SnapshotDriverParameters(snapshot_class->parameters()));
  CopyTo(parameters, request.mutable_parameters());
  if (options_.extra_create_metadata) {
    auto& metadata = *request.mutable_parameters();
    metadata["csi.storage.k8s.io/volumesnapshot/name"] = content.snapshot_name();
    metadata["csi.storage.k8s.io/volumesnapshot/namespace"] = content.snapshot_namespace();
    metadata["csi.storage.k8s.io/volumesnapshotcontent/name"] = content.name();
  }
  ASSIGN_OR_RETURN(const auto secrets, ReadSecrets(content));
  CopyTo(secrets, request.mutable_secrets());
  return request;
}

Snapshotter::Outcome Snapshotter::ReportFailedCreation(const Content& content, const Status& status,
                                                       bool first) {
  const Status recorded = RecordFailedCreation(context_.client, contents_, content, status, first);
  if (!recorded.ok()) return AfterApi(recorded);
  const std::string why = fmt::format("failed to take snapshot of the volume {}: {}",
                                      content.source_volume_handle(), QuotedFailure(status));
  if (!IsAskedAgain(content)) {
    ReportError(content, "SnapshotCreationFailed",
                fmt::format("Failed to create snapshot: {}", why));
  } else {
    ReportError(content, "SnapshotContentCheckandUpdateFailed",
                fmt::format("Failed to check and update snapshot content: {}", why));
  }
  return Outcome::Retry(status);
}

Snapshotter::Outcome Snapshotter::RefuseAnswer(const Content& content, const Status& why) {
  ReportError(content, "SnapshotCreationFailed",
              fmt::format("Failed to create snapshot: {}", base::Message(why)));
  return RecordRefusedAnswer(context_.client, contents_, content, why);
}

Status Snapshotter::CheckAnswer(const Content& content, const csi::v1::Snapshot& snapshot) {
  if (snapshot.snapshot_id().empty()) {
    return Error(StatusCode::kInternal, "the driver gave the snapshot no id");
  }
  // Some drivers answer with another form of the volume's id. As the Go snapshotter, this one takes
  // what the driver gave for the name that it was asked for.
  if (snapshot.source_volume_id() != content.source_volume_handle()) {
    LOG_WARNING("snapshot {} of content {} is of volume {} by the driver's answer, not of {}",
                base::Quote(snapshot.snapshot_id()), base::Quote(content.name()),
                base::Quote(snapshot.source_volume_id()),
                base::Quote(content.source_volume_handle()));
  }
  if (const std::string known = content.snapshot_handle(); !known.empty()) {
    if (known == snapshot.snapshot_id()) return base::OkStatus();
    return Error(StatusCode::kInternal,
                 "the driver gave snapshot '{}' in place of '{}' for the same name",
                 snapshot.snapshot_id(), known);
  }
  const std::string owner = ReserveHandle(content, snapshot.snapshot_id());
  if (owner.empty()) return base::OkStatus();
  return Error(StatusCode::kAlreadyExists,
               "the driver gave snapshot '{}', which belongs to VolumeSnapshotContent '{}'",
               snapshot.snapshot_id(), owner);
}

Snapshotter::Outcome Snapshotter::AdoptSnapshot(const Content& content, const DriverInfo& driver) {
  const StatusOr<csi::v1::Snapshot> found = FindSnapshot(content, driver);
  if (!found.ok()) {
    if (IsOfApi(found.status())) return AfterApi(found.status());
    ReportError(content, "SnapshotContentCheckandUpdateFailed",
                fmt::format("Failed to check and update snapshot content: {}",
                            FailureText(found.status())));
    return Outcome::Retry(found.status());
  }
  return WriteSnapshot(content, *found);
}

StatusOr<csi::v1::Snapshot> Snapshotter::FindSnapshot(const Content& content,
                                                      const DriverInfo& driver) {
  std::string handle = content.source_snapshot_handle();
  if (handle.empty()) handle = content.snapshot_handle();  // one that was taken with a group
  const bool by_id = driver.Has(DriverInfo::Rpc::GET_SNAPSHOT);
  if (!by_id && !driver.Has(DriverInfo::Rpc::LIST_SNAPSHOTS)) {
    csi::v1::Snapshot believed;
    believed.set_snapshot_id(handle);
    believed.set_ready_to_use(true);
    // The time when the snapshot was taken is not known, so the present time is used.
    believed.mutable_creation_time()->set_seconds(
        std::chrono::floor<std::chrono::seconds>(context_.clock.Now()).time_since_epoch().count());
    return believed;
  }
  csi::v1::GetSnapshotRequest request;
  request.set_snapshot_id(handle);
  if (!content.group_handle().empty()) {
    ASSIGN_OR_RETURN(const auto secrets, ReadSecrets(content));
    CopyTo(secrets, request.mutable_secrets());
  } else if (const auto snapshot_class = classes_.Get(content.class_name());
             snapshot_class != nullptr) {
    ASSIGN_OR_RETURN(const api::SecretReference secret,
                     SnapshotClassSecret(snapshot_class->parameters(), SnapshotSecret::kList,
                                         content.name(), nullptr));
    ASSIGN_OR_RETURN(const auto secrets, ReadSecret(context_.client, secret));
    CopyTo(secrets, request.mutable_secrets());
  } else if (!content.class_name().empty()) {
    return Error(StatusCode::kNotFound, "VolumeSnapshotClass '{}' does not exist",
                 content.class_name());
  }
  if (!by_id) return FindInList(request);
  const StatusOr<csi::v1::GetSnapshotResponse> response =
      driver_.Call(&rpc::CsiClient::GetSnapshot, request, options_.timeout);
  if (!response.ok()) return OfDriver(response.status());
  if (response->snapshot().snapshot_id() != handle) {
    return Error(StatusCode::kInternal, "asked for snapshot '{}', the driver gave '{}'", handle,
                 response->snapshot().snapshot_id());
  }
  return response->snapshot();
}

StatusOr<csi::v1::Snapshot> Snapshotter::FindInList(const csi::v1::GetSnapshotRequest& wanted) {
  csi::v1::ListSnapshotsRequest request;
  request.set_snapshot_id(wanted.snapshot_id());
  *request.mutable_secrets() = wanted.secrets();
  Pages pages("snapshots", stopping_.get_token(), options_.pages);
  while (true) {
    const StatusOr<csi::v1::ListSnapshotsResponse> response =
        driver_.Call(&rpc::CsiClient::ListSnapshots, request, options_.timeout);
    if (!response.ok()) return OfDriver(response.status());
    for (const auto& entry : response->entries()) {
      if (entry.snapshot().snapshot_id() == wanted.snapshot_id()) return entry.snapshot();
    }
    if (response->next_token().empty()) break;
    RETURN_IF_ERROR(pages.TurnPage(response->next_token()));
    request.set_starting_token(response->next_token());
  }
  return Error(StatusCode::kNotFound, "can not find snapshot for snapshotID {}",
               wanted.snapshot_id());
}

StatusOr<api::VolumeSnapshotContent> Snapshotter::WriteStatus(const Content& content,
                                                              const std::string& handle,
                                                              Json status) {
  const Json patch = {{"status", std::move(status)}};
  StatusOr<Content> written = content;
  if (WouldChange(content, patch)) {
    written = Patch(context_.client, contents_, content, patch, "status");
  }
  // From here on the informer shows to which content the snapshot belongs, or the content is gone.
  if (written.ok() || written.status().code() == StatusCode::kNotFound) {
    ReleaseHandle(content, handle);
  }
  return written;
}

Snapshotter::Outcome Snapshotter::WriteSnapshot(const Content& content,
                                                const csi::v1::Snapshot& snapshot) {
  Json status = {{"readyToUse", snapshot.ready_to_use()}, {"error", nullptr}};
  if (content.snapshot_handle().empty()) status["snapshotHandle"] = snapshot.snapshot_id();
  if (!content.dynamic() && content.group_handle().empty() &&
      !snapshot.group_snapshot_id().empty()) {
    status["volumeGroupSnapshotHandle"] = snapshot.group_snapshot_id();
  }
  if (!content.has_creation_time()) {
    status["creationTime"] = CreationTime(content, snapshot);
  }
  // The driver may know the size only once the snapshot is ready, or never.
  if (content.restore_bytes().value_or(0) == 0 && snapshot.size_bytes() > 0) {
    status["restoreSize"] = snapshot.size_bytes();
  }
  StatusOr<Content> written = WriteStatus(content, snapshot.snapshot_id(), std::move(status));
  if (!written.ok()) return AfterApi(written.status());
  if (written->has_annotation(kBeingCreated)) {
    written = Patch(context_.client, contents_, *written, RemoveRecordPatch<Content>());
    if (!written.ok()) return AfterApi(written.status());
  }
  if (!snapshot.ready_to_use()) return queue_.AskLater(*written);
  const std::string volume = content.source_volume_handle();
  LOG_INFO("snapshot {}{} is ready as VolumeSnapshotContent {}",
           base::Quote(snapshot.snapshot_id()),
           volume.empty() ? "" : fmt::format(" of volume {}", base::Quote(volume)),
           base::Quote(content.name()));
  return Outcome::Done();
}

// A snapshot without a time, or with an impossible one, is accepted, because a refused snapshot
// could not be deleted by any content.
int64_t Snapshotter::CreationTime(const Content& content, const csi::v1::Snapshot& snapshot) {
  if (snapshot.has_creation_time()) {
    if (const auto time = ReadNanoseconds(snapshot.creation_time())) return *time;
  }
  const auto& time = snapshot.creation_time();
  context_.events.Record(
      content.reference(), EventType::kWarning, "SnapshotCreationTimeMissing",
      fmt::format("The driver does not say when snapshot '{}' was cut ({}); the time of its answer "
                  "is taken",
                  snapshot.snapshot_id(),
                  snapshot.has_creation_time()
                      ? fmt::format("{} s and {} ns is no time", time.seconds(), time.nanos())
                      : "creation_time is required"));
  return Nanoseconds(context_.clock.Now());
}

}  // namespace berth::controllers::snapshotter
