// The end of a content, and of its snapshot in the driver (snapshotter.h).
#include "base/log.h"
#include "controllers/csi_codec.h"
#include "controllers/snapshot_names.h"
#include "controllers/snapshotter/snapshotter.h"
#include "controllers/writes.h"

namespace berth::controllers::snapshotter {

using base::Json;
using base::Status;
using base::StatusCode;
using base::StatusOr;

Snapshotter::Outcome Snapshotter::Delete(const Content& content) {
  const std::string handle = content.snapshot_handle();
  if (!content.delete_with_snapshot() || handle.empty()) return LetGo(content);
  csi::v1::DeleteSnapshotRequest request;
  request.set_snapshot_id(handle);
  const StatusOr<std::map<std::string, std::string>> secrets = Secrets(content);
  if (!secrets.ok()) {
    return DeleteFailed(
        content, base::Annotate(secrets.status(), "Failed to get snapshot class or credentials"));
  }
  CopyTo(*secrets, request.mutable_secrets());
  const Status deleted =
      driver_.Call(&rpc::CsiClient::DeleteSnapshot, request, options_.timeout).status();
  if (!deleted.ok()) {
    return DeleteFailed(
        content, Status(deleted.code(), base::ToAbsl(fmt::format("Failed to delete snapshot: {}",
                                                                 DriverError(deleted)))));
  }
  LOG_INFO("snapshot {} of content {} is deleted", base::Quote(handle),
           base::Quote(content.name()));
  // The handle goes first: whoever takes over from here asks nothing more of the driver.
  const Json cleared = {{"snapshotHandle", nullptr},
                        {"readyToUse", nullptr},
                        {"creationTime", nullptr},
                        {"restoreSize", nullptr},
                        {"error", nullptr}};
  const StatusOr<Content> written =
      Patch(context_.client, contents_, content, {{"status", cleared}}, "status");
  if (!written.ok()) return AfterApi(written.status());
  return LetGo(*written);
}

Snapshotter::Outcome Snapshotter::DeleteFailed(const Content& content, const Status& status) {
  ReportError(content, "SnapshotDeleteError", std::string(base::Message(status)));
  return Outcome::Retry(status);
}

Snapshotter::Outcome Snapshotter::LetGo(const Content& content) {
  if (!content.has_finalizer(kContentProtection)) return Outcome::Done();
  return AfterApi(
      PatchAt(context_.client, contents_, content, FinalizersPatch(content, "", kContentProtection))
          .status());
}

}  // namespace berth::controllers::snapshotter
