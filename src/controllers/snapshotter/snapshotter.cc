#include "controllers/snapshotter/snapshotter.h"

#include "controllers/csi_codec.h"
#include "controllers/queue_options.h"
#include "controllers/snapshot_names.h"
#include "controllers/snapshotter/content_report.h"
#include "controllers/snapshotter/creation_record.h"
#include "controllers/snapshotter/group_snapshotter.h"
#include "controllers/writes.h"

namespace berth::controllers::snapshotter {

using base::Error;
using base::Status;
using base::StatusCode;
using base::StatusOr;

namespace {

// The handle that a person wrote, and the handle that the driver gave.
std::vector<std::string> Handles(const api::VolumeSnapshotContent& content) {
  std::vector<std::string> handles = {content.source_snapshot_handle(), content.snapshot_handle()};
  if (handles.front() == handles.back()) handles.pop_back();
  std::erase(handles, "");
  return handles;
}

}  // namespace

bool ShouldDelete(const api::VolumeSnapshotContent& content) {
  if (!content.deleting()) return false;
  // A person made this content and it was never bound, so no VolumeSnapshot decides about it.
  if (!content.dynamic() && content.snapshot_uid().empty()) return true;
  // Whether the handle of a snapshot that may exist is known.
  const bool known = !content.has_annotation(kBeingCreated) || !content.snapshot_handle().empty();
  return content.has_annotation(kBeingDeleted) && known;
}

Snapshotter::Snapshotter(Context context, DriverConnection& driver, Options options)
    : context_(context),
      driver_(driver),
      options_(std::move(options)),
      contents_(context.informers.Of<Content>()),
      classes_(context.informers.Of<api::VolumeSnapshotClass>()),
      queue_(MakeQueueOptions("snapshot", options_.workers, options_, context), contents_, classes_,
             driver, kBeingDeleted, [this](const std::string& key) { return SyncContent(key); }) {
  if (options_.group_snapshots) {
    groups_ = std::make_unique<GroupSnapshotter>(context_, driver_, options_);
  }
  contents_.AddIndex(kContentsByHandle, Handles);
  contents_.AddHandler([this](const auto& change) {
    const bool went = change.before != nullptr && ShouldDelete(*change.before);
    if (change.after == nullptr) ForgetContent(*change.before);
    if (change.after == nullptr || (!went && ShouldDelete(*change.after))) {
      WakeOthers(change.latest());
    }
  });
}

Snapshotter::~Snapshotter() { Stop(); }

void Snapshotter::Start() {
  queue_.Start();
  if (groups_ != nullptr) groups_->Start();
}

void Snapshotter::Stop() {
  queue_.Stop();
  if (groups_ != nullptr) groups_->Stop();
}

bool Snapshotter::IsOurs(const Content& content, const DriverInfo& driver) const {
  if (content.driver() != driver.name) return false;
  if (!options_.node_name.empty()) {
    const std::string node = content.label(kManagedByNode);
    if (node.empty() ? !options_.takes_unassigned : node != options_.node_name) return false;
  }
  return true;
}

Snapshotter::Outcome Snapshotter::SyncContent(const std::string& key) {
  const auto driver = driver_.info();
  const auto content = contents_.Get(key);
  if (driver == nullptr || content == nullptr || !IsOurs(*content, *driver)) {
    return Outcome::Done();
  }
  if (ShouldDelete(*content)) return DeleteSnapshot(*content);
  // A process may have ended between the write that made it ready and the end of the record.
  if (content->ready()) {
    return AfterApi(RemoveRecord(context_.client, contents_, *content).status());
  }
  if (IsGroupMember(*content)) return SyncMember(*content, *driver);
  return content->dynamic() ? CreateSnapshot(*content, *driver) : AdoptSnapshot(*content, *driver);
}

Snapshotter::Outcome Snapshotter::SyncMember(const Content& content, const DriverInfo& driver) {
  // Until the handle is there, the snapshot controller is writing what the group's content says. A
  // content that a person made has its handle in its spec.
  const bool unknown = content.dynamic() && content.snapshot_handle().empty();
  return unknown ? Outcome::Done() : AdoptSnapshot(content, driver);
}

StatusOr<std::map<std::string, std::string>> Snapshotter::ReadSecrets(const Content& content) {
  return ReadSecretOf(context_.client, content, kSnapshotSecretName, kSnapshotSecretNamespace);
}

void Snapshotter::ReportCreationError(const Content& content, std::string_view why) {
  if (content.has_status()) {
    ReportError(content, "SnapshotContentCheckandUpdateFailed",
                fmt::format("Failed to check and update snapshot content: {}", why));
  } else {
    ReportError(content, "SnapshotCreationFailed",
                fmt::format("Failed to create snapshot: {}", why));
  }
}

void Snapshotter::ReportError(const Content& content, std::string_view reason,
                              const std::string& message) {
  ReportErrorOf(context_, contents_, content, reason, message);
}

}  // namespace berth::controllers::snapshotter
