#include "controllers/snapshotter/group_snapshotter.h"

#include "base/log.h"
#include "controllers/csi_codec.h"
#include "controllers/queue_options.h"
#include "controllers/snapshot_names.h"
#include "controllers/snapshotter/content_report.h"
#include "controllers/snapshotter/creation_record.h"
#include "controllers/writes.h"

namespace berth::controllers::snapshotter {

using base::Error;
using base::Json;
using base::Status;
using base::StatusCode;
using base::StatusOr;

namespace {

// The handles of the snapshots of the group, which the driver needs to delete it.
std::vector<std::string> SnapshotHandles(const api::VolumeGroupSnapshotContent& content) {
  std::vector<std::string> handles;
  for (const Json& info : content.snapshot_infos()) {
    handles.push_back(base::json::String(info, {"snapshotHandle"}));
  }
  return handles.empty() ? content.source_snapshot_handles() : handles;
}

}  // namespace

bool ShouldDelete(const api::VolumeGroupSnapshotContent& content) {
  if (!content.deleting()) return false;
  // A person made this content and it was never bound, so no VolumeGroupSnapshot decides about it.
  if (content.existing() && content.group_uid().empty()) return true;
  // Whether the handle of a group snapshot that may exist is known.
  const bool known = !content.has_annotation(kGroupBeingCreated) || !content.group_handle().empty();
  return content.has_annotation(kGroupBeingDeleted) && known;
}

GroupSnapshotter::GroupSnapshotter(const Context& context, DriverConnection& driver,
                                   const Options& options)
    : context_(context),
      driver_(driver),
      options_(options),
      contents_(context.informers.OfOptional<Content>()),
      classes_(context.informers.OfOptional<Class>()),
      queue_(MakeQueueOptions("groupsnapshot", options_.workers, options_, context), contents_,
             classes_, driver, kGroupBeingDeleted,
             [this](const std::string& key) { return SyncContent(key); }) {}

GroupSnapshotter::~GroupSnapshotter() { Stop(); }

bool GroupSnapshotter::IsOurs(const Content& content, const DriverInfo& driver) const {
  if (content.driver() != driver.name) return false;
  if (content.existing() != content.source_volume_handles().empty()) return false;
  if (options_.node_name.empty()) return true;
  const std::string node = content.label(kManagedByNode);
  return node.empty() ? options_.takes_unassigned : node == options_.node_name;
}

GroupSnapshotter::Outcome GroupSnapshotter::SyncContent(const std::string& key) {
  const auto driver = driver_.info();
  const auto content = contents_.Get(key);
  if (driver == nullptr || content == nullptr || !IsOurs(*content, *driver)) {
    return Outcome::Done();
  }
  if (ShouldDelete(*content)) return DeleteGroup(*content);
  // A process may have ended between the write that made it ready and the end of the record.
  if (content->ready()) {
    return AfterApi(RemoveRecord(context_.client, contents_, *content).status());
  }
  return content->existing() ? AdoptGroup(*content) : CreateGroup(*content);
}

GroupSnapshotter::Outcome GroupSnapshotter::DeleteGroup(const Content& content) {
  const std::string handle = content.group_handle();
  if (!content.delete_with_group() || handle.empty()) return ReleaseContent(content);
  if (content.has_annotation(kGroupBeingCreated)) {
    // Without the handle the group snapshot would be taken once more. The change queues the content
    // again.
    return AfterApi(RemoveRecord(context_.client, contents_, content).status());
  }
  csi::v1::DeleteVolumeGroupSnapshotRequest request;
  request.set_group_snapshot_id(handle);
  for (const std::string& snapshot : SnapshotHandles(content)) request.add_snapshot_ids(snapshot);
  // A driver may have given a group without snapshots. A person must say which ones exist.
  if (request.snapshot_ids().empty() && content.existing()) {
    return ReportFailedDeletion(
        content, Error(StatusCode::kFailedPrecondition,
                       "cannot delete group snapshot content {}. No snapshots found in the "
                       "group snapshot",
                       content.name()));
  }
  const StatusOr<std::map<std::string, std::string>> secrets = ReadSecrets(content);
  if (!secrets.ok()) {
    if (IsOfApi(secrets.status())) return AfterApi(secrets.status());
    return ReportFailedDeletion(
        content, base::Annotate(secrets.status(), "Failed to get snapshot credentials"));
  }
  CopyTo(*secrets, request.mutable_secrets());
  const Status deleted =
      driver_.Call(&rpc::CsiClient::DeleteVolumeGroupSnapshot, request, options_.timeout).status();
  if (!deleted.ok()) {
    // After any failure the driver is asked again, until it says that the group snapshot is gone.
    return ReportFailedDeletion(
        content,
        Error(deleted.code(), "Failed to delete group snapshot: {}", DriverError(deleted)));
  }
  LOG_INFO("group snapshot {} of VolumeGroupSnapshotContent {} is deleted", base::Quote(handle),
           base::Quote(content.name()));
  // The handle is removed first, so that a later process does not call the driver again.
  const Json cleared = {{"volumeGroupSnapshotHandle", nullptr},
                        {"readyToUse", nullptr},
                        {"creationTime", nullptr},
                        {"error", nullptr}};
  const StatusOr<Content> written =
      Patch(context_.client, contents_, content, {{"status", cleared}}, "status");
  return written.ok() ? ReleaseContent(*written) : AfterApi(written.status());
}

GroupSnapshotter::Outcome GroupSnapshotter::ReportFailedDeletion(const Content& content,
                                                                 const Status& status) {
  ReportError(content, "GroupSnapshotDeleteError", std::string(base::Message(status)));
  return Outcome::Retry(status);
}

GroupSnapshotter::Outcome GroupSnapshotter::ReleaseContent(const Content& content) {
  if (!content.has_finalizer(kGroupContentProtection)) return Outcome::Done();
  return AfterApi(PatchAt(context_.client, contents_, content,
                          FinalizersPatch(content, "", kGroupContentProtection))
                      .status());
}

StatusOr<std::shared_ptr<const api::VolumeGroupSnapshotClass>> GroupSnapshotter::ClassOf(
    const Content& content) const {
  const std::string name = content.class_name();
  auto found = classes_.Get(name);
  if (found == nullptr && !name.empty()) {
    return Error(StatusCode::kNotFound, "VolumeGroupSnapshotClass '{}' does not exist", name);
  }
  return found;
}

StatusOr<std::map<std::string, std::string>> GroupSnapshotter::ReadSecrets(const Content& content) {
  return ReadSecretOf(context_.client, content, kGroupSecretName, kGroupSecretNamespace);
}

void GroupSnapshotter::ReportError(const Content& content, std::string_view reason,
                                   const std::string& message) {
  ReportErrorOf(context_, contents_, content, reason, message);
}

}  // namespace berth::controllers::snapshotter
