// Deletes the snapshot of a deleted content in the driver, and releases the content
// (snapshotter.h).
#include "base/log.h"
#include "controllers/csi_codec.h"
#include "controllers/snapshot_names.h"
#include "controllers/snapshotter/creation_record.h"
#include "controllers/snapshotter/snapshotter.h"
#include "controllers/writes.h"

namespace berth::controllers::snapshotter {

using base::Error;
using base::Json;
using base::MutexLock;
using base::Status;
using base::StatusCode;
using base::StatusOr;

Snapshotter::Outcome Snapshotter::DeleteSnapshot(const Content& content) {
  const std::string handle = content.snapshot_handle();
  if (!content.delete_with_snapshot() || handle.empty() || IsGroupMember(content)) {
    return ReleaseContent(content);
  }
  if (content.has_annotation(kBeingCreated)) {
    // Without the handle the snapshot would be taken once more. The change queues the content
    // again.
    return AfterApi(RemoveRecord(context_.client, contents_, content).status());
  }
  if (const Status alone = CheckAlone(content, handle); !alone.ok()) {
    return ReportFailedDeletion(content, base::Annotate(alone, "Failed to delete snapshot"));
  }
  csi::v1::DeleteSnapshotRequest request;
  request.set_snapshot_id(handle);
  const StatusOr<std::map<std::string, std::string>> secrets = ReadSecrets(content);
  if (!secrets.ok()) {
    if (IsOfApi(secrets.status())) return AfterApi(secrets.status());
    return ReportFailedDeletion(
        content, base::Annotate(secrets.status(), "Failed to get snapshot class or credentials"));
  }
  CopyTo(*secrets, request.mutable_secrets());
  const Status deleted =
      driver_.Call(&rpc::CsiClient::DeleteSnapshot, request, options_.timeout).status();
  if (!deleted.ok()) {
    // After any failure the driver is asked again, until it says that the snapshot is gone.
    return ReportFailedDeletion(
        content, Error(deleted.code(), "Failed to delete snapshot: {}", DriverError(deleted)));
  }
  LOG_INFO("snapshot {} of VolumeSnapshotContent {} is deleted", base::Quote(handle),
           base::Quote(content.name()));
  // The handle is removed first, so that a later process does not call the driver again.
  const Json cleared = {{"snapshotHandle", nullptr},
                        {"readyToUse", nullptr},
                        {"creationTime", nullptr},
                        {"restoreSize", nullptr},
                        {"error", nullptr}};
  const StatusOr<Content> written =
      Patch(context_.client, contents_, content, {{"status", cleared}}, "status");
  if (!written.ok()) return AfterApi(written.status());
  return ReleaseContent(*written);
}

Status Snapshotter::CheckAlone(const Content& content, const std::string& handle) {
  std::string owner;
  for (const auto& other : FindOtherContents(content, handle)) {
    if (!ShouldDelete(*other) || !other->delete_with_snapshot()) owner = other->name();
  }
  {
    MutexLock lock(mutex_);
    const auto given = reserved_.find(handle);
    if (given != reserved_.end() && given->second != content.name()) owner = given->second;
  }
  if (owner.empty()) return base::OkStatus();
  return Error(StatusCode::kFailedPrecondition,
               "snapshot '{}' is VolumeSnapshotContent '{}', too, and is not deleted with this one",
               handle, owner);
}

Snapshotter::Outcome Snapshotter::ReportFailedDeletion(const Content& content,
                                                       const Status& status) {
  ReportError(content, "SnapshotDeleteError", std::string(base::Message(status)));
  return Outcome::Retry(status);
}

Snapshotter::Outcome Snapshotter::ReleaseContent(const Content& content) {
  if (!content.has_finalizer(kContentProtection)) return Outcome::Done();
  return AfterApi(
      PatchAt(context_.client, contents_, content, FinalizersPatch(content, "", kContentProtection))
          .status());
}

}  // namespace berth::controllers::snapshotter
