// From a content to a snapshot of the driver that is ready to use (snapshotter.h).
#include <algorithm>

#include "base/log.h"
#include "controllers/csi_codec.h"
#include "controllers/snapshot_names.h"
#include "controllers/snapshotter/snapshotter.h"
#include "controllers/writes.h"

namespace berth::controllers::snapshotter {

using base::Error;
using base::EventType;
using base::Json;
using base::MutexLock;
using base::Status;
using base::StatusCode;
using base::StatusOr;
using std::chrono::milliseconds;

namespace {

// An upload takes minutes to hours: it is asked about at least this often.
constexpr milliseconds kMaxPoll{30000};

Json RemoveAnnotation(std::string_view key) {
  return {{"metadata", {{"annotations", {{std::string(key), nullptr}}}}}};
}

int64_t Nanoseconds(const csi::v1::Snapshot& snapshot, const base::Clock& clock) {
  const auto& time = snapshot.creation_time();
  if (snapshot.has_creation_time()) return time.seconds() * 1'000'000'000 + time.nanos();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(clock.Now().time_since_epoch())
      .count();
}

}  // namespace

Snapshotter::Outcome Snapshotter::Create(const Content& content, const DriverInfo& driver) {
  if (!driver.Has(DriverInfo::Rpc::CREATE_DELETE_SNAPSHOT)) {
    const Status cannot =
        Error(StatusCode::kUnimplemented, "driver '{}' cannot take snapshots", driver.name);
    ReportError(content, "SnapshotCreationFailed",
                fmt::format("Failed to create snapshot: {}", base::Message(cannot)));
    return Outcome::After(options_.retry_max);
  }
  const StatusOr<csi::v1::CreateSnapshotRequest> request = MakeRequest(content);
  if (!request.ok()) {
    ReportError(content, "SnapshotCreationFailed",
                fmt::format("Failed to create snapshot: failed to get input parameters to create "
                            "snapshot for content {}: {}",
                            content.name(), base::Message(request.status())));
    return Outcome::Retry(request.status());
  }
  const StatusOr<Content> marked = MarkBeingCreated(content);
  if (!marked.ok()) return AfterApi(marked.status());
  const StatusOr<csi::v1::CreateSnapshotResponse> response =
      driver_.Call(&rpc::CsiClient::CreateSnapshot, *request, options_.timeout);
  if (!response.ok()) return CreateFailed(*marked, response.status());
  if (const Status fits = CheckAnswer(*marked, response->snapshot()); !fits.ok()) {
    // There may be a snapshot, and it is not known which: "being-created" stays.
    ReportError(*marked, "SnapshotCreationFailed",
                fmt::format("Failed to create snapshot: {}", base::Message(fits)));
    return Outcome::Retry(fits);
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
  std::string uid = content.snapshot_uid();
  if (uid.empty()) {
    return Error(StatusCode::kInvalidArgument,
                 "spec.volumeSnapshotRef.uid is empty, by which the snapshot would be named");
  }
  if (options_.snapshot_name_uuid_length >= 0) {
    std::erase(uid, '-');
    uid = uid.substr(0, static_cast<size_t>(options_.snapshot_name_uuid_length));
  }
  csi::v1::CreateSnapshotRequest request;
  request.set_name(fmt::format("{}-{}", options_.snapshot_name_prefix, uid));
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
  ASSIGN_OR_RETURN(const auto secrets, Secrets(content));
  CopyTo(secrets, request.mutable_secrets());
  return request;
}

StatusOr<api::VolumeSnapshotContent> Snapshotter::MarkBeingCreated(const Content& content) {
  // With a handle it is known which snapshot there is.
  const bool on_record =
      content.has_annotation(kBeingCreated) || !content.snapshot_handle().empty();
  if (on_record && content.has_finalizer(kContentProtection)) return content;
  Json patch = FinalizersPatch(content, kContentProtection, "");
  patch["metadata"]["annotations"][std::string(kBeingCreated)] = "yes";
  return PatchAt(context_.client, contents_, content, std::move(patch));
}

Snapshotter::Outcome Snapshotter::CreateFailed(const Content& content, const Status& status) {
  if (rpc::IsFinal(status) && content.snapshot_handle().empty()) {
    const Status unmarked =
        Patch(context_.client, contents_, content, RemoveAnnotation(kBeingCreated)).status();
    if (!unmarked.ok()) return AfterApi(unmarked);
  }
  ReportError(content, "SnapshotCreationFailed",
              fmt::format("Failed to create snapshot: failed to take snapshot of the volume {}: {}",
                          content.source_volume_handle(), DriverError(status)));
  return Outcome::Retry(status);
}

Status Snapshotter::CheckAnswer(const Content& content, const csi::v1::Snapshot& snapshot) const {
  if (snapshot.snapshot_id().empty()) {
    return Error(StatusCode::kInternal, "the driver gave the snapshot no id");
  }
  if (!snapshot.has_creation_time()) {
    return Error(StatusCode::kInternal,
                 "the driver does not say when snapshot '{}' was cut (creation_time is required)",
                 snapshot.snapshot_id());
  }
  if (snapshot.source_volume_id() != content.source_volume_handle()) {
    return Error(StatusCode::kInternal, "the driver gave snapshot '{}', which is of volume '{}'",
                 snapshot.snapshot_id(), snapshot.source_volume_id());
  }
  if (snapshot.size_bytes() < 0) {
    return Error(StatusCode::kInternal, "the size of snapshot '{}' is negative",
                 snapshot.snapshot_id());
  }
  const std::string known = content.snapshot_handle();
  if (!known.empty() && known != snapshot.snapshot_id()) {
    return Error(StatusCode::kInternal,
                 "the driver gave snapshot '{}' in place of '{}' for the same name",
                 snapshot.snapshot_id(), known);
  }
  for (const auto& other : contents_.ByIndex(kContentsByHandle, snapshot.snapshot_id())) {
    if (other->name() != content.name() && other->driver() == content.driver()) {
      return Error(StatusCode::kAlreadyExists,
                   "the driver gave snapshot '{}', which belongs to VolumeSnapshotContent '{}'",
                   snapshot.snapshot_id(), other->name());
    }
  }
  return base::OkStatus();
}

Snapshotter::Outcome Snapshotter::Adopt(const Content& content, const DriverInfo& driver) {
  const StatusOr<csi::v1::Snapshot> found = Find(content, driver);
  if (!found.ok()) {
    ReportError(content, "SnapshotContentCheckandUpdateFailed",
                fmt::format("Failed to check and update snapshot content: {}",
                            DriverError(found.status())));
    return Outcome::Retry(found.status());
  }
  return WriteSnapshot(content, *found);
}

StatusOr<csi::v1::Snapshot> Snapshotter::Find(const Content& content, const DriverInfo& driver) {
  const std::string handle = content.source_snapshot_handle();
  const bool by_id = driver.Has(DriverInfo::Rpc::GET_SNAPSHOT);
  if (!by_id && !driver.Has(DriverInfo::Rpc::LIST_SNAPSHOTS)) {
    csi::v1::Snapshot believed;
    believed.set_snapshot_id(handle);
    believed.set_ready_to_use(true);
    return believed;
  }
  csi::v1::GetSnapshotRequest request;
  request.set_snapshot_id(handle);
  if (const auto snapshot_class = classes_.Get(content.class_name()); snapshot_class != nullptr) {
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
  ASSIGN_OR_RETURN(const csi::v1::GetSnapshotResponse response,
                   driver_.Call(&rpc::CsiClient::GetSnapshot, request, options_.timeout));
  if (response.snapshot().snapshot_id() != handle) {
    return Error(StatusCode::kInternal, "asked for snapshot '{}', the driver gave '{}'", handle,
                 response.snapshot().snapshot_id());
  }
  return response.snapshot();
}

StatusOr<csi::v1::Snapshot> Snapshotter::FindInList(const csi::v1::GetSnapshotRequest& wanted) {
  csi::v1::ListSnapshotsRequest request;
  request.set_snapshot_id(wanted.snapshot_id());
  *request.mutable_secrets() = wanted.secrets();
  while (true) {
    ASSIGN_OR_RETURN(const csi::v1::ListSnapshotsResponse response,
                     driver_.Call(&rpc::CsiClient::ListSnapshots, request, options_.timeout));
    for (const auto& entry : response.entries()) {
      if (entry.snapshot().snapshot_id() == wanted.snapshot_id()) return entry.snapshot();
    }
    if (response.next_token().empty() || response.next_token() == request.starting_token()) break;
    request.set_starting_token(response.next_token());
  }
  return Error(StatusCode::kNotFound, "can not find snapshot for snapshotID {}",
               wanted.snapshot_id());
}

Snapshotter::Outcome Snapshotter::WriteSnapshot(const Content& content,
                                                const csi::v1::Snapshot& snapshot) {
  Json status = {{"readyToUse", snapshot.ready_to_use()}, {"error", nullptr}};
  if (content.snapshot_handle().empty()) status["snapshotHandle"] = snapshot.snapshot_id();
  if (!content.has_creation_time()) {
    status["creationTime"] = Nanoseconds(snapshot, context_.clock);
  }
  // A size that was not known when the snapshot was cut may be, once it is ready.
  if (content.restore_bytes().value_or(0) == 0) status["restoreSize"] = snapshot.size_bytes();
  const Json patch = {{"status", std::move(status)}};
  Json merged = content.json();
  merged.merge_patch(patch);
  StatusOr<Content> written = content;
  if (merged != content.json()) {
    written = Patch(context_.client, contents_, content, patch, "status");
    if (!written.ok()) return AfterApi(written.status());
  }
  if (written->has_annotation(kBeingCreated)) {
    written = Patch(context_.client, contents_, *written, RemoveAnnotation(kBeingCreated));
    if (!written.ok()) return AfterApi(written.status());
  }
  if (!snapshot.ready_to_use()) return Poll(*written);
  LOG_INFO("snapshot {} of content {} is ready", base::Quote(snapshot.snapshot_id()),
           base::Quote(content.name()));
  return Outcome::Done();
}

Snapshotter::Outcome Snapshotter::Poll(const Content& content) {
  MutexLock lock(mutex_);
  const int count = std::min(polls_[content.uid()]++, 20);
  return Outcome::After(
      std::min(options_.retry_start * (1 << count), std::min(options_.retry_max, kMaxPoll)));
}

}  // namespace berth::controllers::snapshotter
