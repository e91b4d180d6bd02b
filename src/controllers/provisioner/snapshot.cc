#include "controllers/provisioner/snapshot.h"

#include "api/quantity.h"
#include "controllers/go_bool.h"

namespace berth::controllers::provisioner {

using base::Error;
using base::Status;
using base::StatusCode;
using base::StatusOr;

Status CheckSnapshot(const api::VolumeSnapshot& snapshot) {
  if (snapshot.deleting() && !snapshot.has_finalizer(kSnapshotProtection)) {
    return Error(StatusCode::kFailedPrecondition, "it is being deleted");
  }
  if (snapshot.content_name().empty()) {
    return Error(StatusCode::kFailedPrecondition, "it is not ready: it has no content yet{}{}",
                 snapshot.error().empty() ? "" : ": ", snapshot.error());
  }
  return base::OkStatus();
}

StatusOr<std::string> SnapshotHandle(const SnapshotUse& use) {
  const auto refuse = [](const std::string& why) {
    return Error(StatusCode::kFailedPrecondition, "{}", why);
  };
  const api::VolumeSnapshot& snapshot = use.snapshot;
  const api::VolumeSnapshotContent& content = use.content;
  if (!api::AreBound(snapshot, content)) {
    return refuse(fmt::format("content '{}' is not bound to it", content.name()));
  }
  if (content.driver() != use.driver) {
    return refuse(fmt::format("it is of driver '{}', and the class is for '{}'", content.driver(),
                              use.driver));
  }
  if (!snapshot.ready()) {
    return refuse(fmt::format("it is not ready to use{}{}", snapshot.error().empty() ? "" : ": ",
                              snapshot.error()));
  }
  if (content.snapshot_handle().empty()) {
    return refuse(fmt::format("content '{}' has no snapshotHandle", content.name()));
  }
  if (!snapshot.restore_size().empty()) {
    const StatusOr<int> compared =
        api::CompareQuantities(use.claim.requested_storage(), snapshot.restore_size());
    if (!compared.ok() || *compared < 0) {
      return refuse(fmt::format("the volume must have at least its restoreSize, {}",
                                snapshot.restore_size()));
    }
  }
  const std::string mode = content.source_volume_mode();
  if (use.prevent_mode_conversion && !mode.empty() && mode != use.claim.volume_mode() &&
      !IsGoTrue(content.annotation(kAllowModeChange))) {
    return refuse(
        fmt::format("it was taken of a volume of mode {}, not {}, and content '{}' lacks the "
                    "annotation {}=true",
                    mode, use.claim.volume_mode(), content.name(), kAllowModeChange));
  }
  return content.snapshot_handle();
}

}  // namespace berth::controllers::provisioner
