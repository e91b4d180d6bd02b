// From a content to a snapshot of the driver that is ready to use (snapshotter.h).
#include <algorithm>

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

namespace {

Status NoSuchSnapshot(const std::string& handle) {
  return Error(StatusCode::kNotFound, "can not find snapshot for snapshotID {}", handle);
}

}  // namespace

Snapshotter::Outcome Snapshotter::CreateSnapshot(const Content& content, const DriverInfo& driver) {
  if (!driver.Has(DriverInfo::Rpc::CREATE_DELETE_SNAPSHOT)) {
    const Status cannot =
        Error(StatusCode::kUnimplemented, "driver '{}' cannot take snapshots", driver.name);
    ReportCreationError(content, base::Message(cannot));
    return Outcome::After(options_.retry_max);
  }
  const StatusOr<csi::v1::CreateSnapshotRequest> request = MakeRequest(content);
  if (!request.ok()) {
    if (IsOfApi(request.status())) return AfterApi(request.status());
    ReportCreationError(
        content, fmt::format("failed to get input parameters to create snapshot for content {}: {}",
                             content.name(), base::Message(request.status())));
    return Outcome::Retry(request.status());
  }
  const StatusOr<Content> marked = RecordCreation(context_.client, contents_, content);
  if (!marked.ok()) return AfterApi(marked.status());
  const StatusOr<csi::v1::CreateSnapshotResponse> response =
      driver_.Call(&rpc::CsiClient::CreateSnapshot, *request, options_.timeout);
  if (!response.ok()) return ReportFailedCreation(*marked, OfDriver(response.status()));
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

Snapshotter::Outcome Snapshotter::ReportFailedCreation(const Content& content,
                                                       const Status& status) {
  const StatusOr<Content> recorded =
      RecordFailedCreation(context_.client, contents_, content, status);
  if (!recorded.ok()) return AfterApi(recorded.status());
  ReportCreationError(content, fmt::format("failed to take snapshot of the volume {}: {}",
                                           content.source_volume_handle(), QuotedFailure(status)));
  return AfterFailedCreation(*recorded, status);
}

// The record goes, because what the driver gave is not this content's to delete, or has no id by
// which it could be deleted.
Snapshotter::Outcome Snapshotter::RefuseAnswer(const Content& content, const Status& why) {
  const StatusOr<Content> recorded = RemoveRecord(context_.client, contents_, content);
  if (!recorded.ok()) return AfterApi(recorded.status());
  ReportCreationError(content, base::Message(why));
  return AfterFailedCreation(*recorded, why);
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
  csi::v1::ListSnapshotsRequest request;
  request.set_snapshot_id(content.source_snapshot_handle());
  if (request.snapshot_id().empty()) request.set_snapshot_id(content.snapshot_handle());
  // An empty id would ask for all snapshots.
  if (request.snapshot_id().empty()) return NoSuchSnapshot("");
  ASSIGN_OR_RETURN(const auto secrets, ReadListSecrets(content));
  CopyTo(secrets, request.mutable_secrets());
  if (driver.Has(DriverInfo::Rpc::LIST_SNAPSHOTS)) return FindInList(content, request);
  csi::v1::Snapshot believed;
  believed.set_snapshot_id(request.snapshot_id());
  believed.set_ready_to_use(true);
  // The time when the snapshot was taken is not known, so the present time is used.
  believed.mutable_creation_time()->set_seconds(
      std::chrono::floor<std::chrono::seconds>(context_.clock.Now()).time_since_epoch().count());
  return believed;
}

StatusOr<std::map<std::string, std::string>> Snapshotter::ReadListSecrets(const Content& content) {
  // One that was taken with a group has the secret of the group.
  if (!content.group_handle().empty()) return ReadSecrets(content);
  if (content.class_name().empty()) return std::map<std::string, std::string>();
  const auto snapshot_class = classes_.Get(content.class_name());
  if (snapshot_class == nullptr) {
    return Error(StatusCode::kNotFound, "VolumeSnapshotClass '{}' does not exist",
                 content.class_name());
  }
  ASSIGN_OR_RETURN(const api::SecretReference secret,
                   SnapshotClassSecret(snapshot_class->parameters(), SnapshotSecret::kList,
                                       content.name(), nullptr));
  return ReadSecret(context_.client, secret);
}

StatusOr<csi::v1::Snapshot> Snapshotter::FindInList(const Content& content,
                                                    const csi::v1::ListSnapshotsRequest& request) {
  const std::string& wanted = request.snapshot_id();
  const StatusOr<csi::v1::ListSnapshotsResponse> response =
      driver_.Call(&rpc::CsiClient::ListSnapshots, request, options_.timeout);
  if (!response.ok()) return OfDriver(response.status());
  const auto& entries = response->entries();
  if (entries.empty()) return NoSuchSnapshot(wanted);
  auto entry = std::find_if(entries.begin(), entries.end(), [&](const auto& candidate) {
    return candidate.snapshot().snapshot_id() == wanted;
  });
  if (entry == entries.end()) {
    // Some drivers answer with another form of the id. As the Go snapshotter, this one takes what
    // the driver gave for the id that it was asked for.
    entry = entries.begin();
    LOG_WARNING("asked for snapshot {} of content {}, the driver gave {}, which is taken for it",
                base::Quote(wanted), base::Quote(content.name()),
                base::Quote(entry->snapshot().snapshot_id()));
  }
  csi::v1::Snapshot found = entry->snapshot();
  found.set_snapshot_id(wanted);
  return found;
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
  Json status = {{"readyToUse", snapshot.ready_to_use()}};
  if (snapshot.ready_to_use()) status["error"] = nullptr;
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
  written = RemoveRecord(context_.client, contents_, *written);
  if (!written.ok()) return AfterApi(written.status());
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
