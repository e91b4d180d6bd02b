// What the double does wrong in the calls of the Node service.
#include <unistd.h>

#include "platform/files/durable_file.h"
#include "wrong_driver.h"

namespace berth::doubles {
namespace {

using base::Error;
using base::OkStatus;
using base::Status;
using base::StatusCode;

std::string Beside(const std::string& target) { return target + "-elsewhere"; }

}  // namespace

Status WrongDriver::Handle(const Switches::On& on, const csi::v1::NodeGetInfoRequest& request,
                           csi::v1::NodeGetInfoResponse& response) {
  RETURN_IF_ERROR(driver_.Handle(request, response));
  if (on("node-id-empty")) response.clear_node_id();
  if (on("node-id-too-long")) response.set_node_id(std::string(2500, 'n'));
  if (on("max-volumes-negative")) response.set_max_volumes_per_node(-1);
  if (on("topology-key-invalid")) {
    (*response.mutable_accessible_topology()->mutable_segments())["a b//c"] = "d";
  }
  return OkStatus();
}

Status WrongDriver::Handle(const Switches::On& on,
                           const csi::v1::NodeGetCapabilitiesRequest& request,
                           csi::v1::NodeGetCapabilitiesResponse& response) {
  if (on("capabilities-change") && ++count_ % 3 == 0) return OkStatus();
  return driver_.Handle(request, response);
}

Status WrongDriver::Handle(const Switches::On& on, const csi::v1::NodeStageVolumeRequest& request,
                           csi::v1::NodeStageVolumeResponse& response) {
  const std::string& path = request.staging_target_path();
  const bool staged = driver_.state().StagingPaths().contains(path);
  const Status status = driver_.Handle(request, response);
  if (on("stage-ignores-conflict") && status.code() == StatusCode::kAlreadyExists) {
    return OkStatus();
  }
  if (on("stage-unknown") && status.code() == StatusCode::kNotFound) return OkStatus();
  RETURN_IF_ERROR(status);
  if (on("stage-twice-mounts-twice") && staged) {
    return driver_.Bind(driver_.VolumeFolder(request.volume_id()), path, false);
  }
  return OkStatus();
}

Status WrongDriver::Handle(const Switches::On& on, const csi::v1::NodeUnstageVolumeRequest& request,
                           csi::v1::NodeUnstageVolumeResponse& response) {
  if (on("unstage-twice-fails") &&
      !driver_.state().StagingPaths().contains(request.staging_target_path())) {
    return Error(StatusCode::kNotFound, "not staged");
  }
  if (on("unstage-leaves-mount")) return driver_.state().Handle(request, response);
  return driver_.Handle(request, response);
}

// Breaks a rule at the target: mounts nothing there, another volume, or one that is not staged.
Status WrongDriver::PublishWrongly(const Switches::On& on,
                                   const csi::v1::NodePublishVolumeRequest& request) {
  const std::string& target = request.target_path();
  const std::string own = driver_.VolumeFolder(request.volume_id());
  RETURN_IF_ERROR(platform::MakeFolders(target, 0755));
  if (on("mounts-elsewhere")) return driver_.Bind(own, Beside(target), request.readonly());
  if (on("publish-unstaged")) return driver_.Bind(own, target, request.readonly());
  if (!on("publishes-other-volume")) return OkStatus();
  for (const std::string& id : driver_.state().VolumeIds()) {
    // It takes a volume that is in use, because then two users share its data.
    const auto other = driver_.state().FindVolume(id);
    if (id == request.volume_id() || !other.has_value() || other->published.empty()) continue;
    return driver_.Bind(driver_.VolumeFolder(id), target, request.readonly());
  }
  return driver_.Bind(own, target, request.readonly());
}

Status WrongDriver::Handle(const Switches::On& on, const csi::v1::NodePublishVolumeRequest& request,
                           csi::v1::NodePublishVolumeResponse& response) {
  const bool published = driver_.state().TargetPaths().contains(request.target_path());
  csi::v1::NodePublishVolumeRequest asked = request;
  if (on("ignores-readonly")) asked.set_readonly(false);
  if (on("publishes-nothing") || on("mounts-elsewhere") || on("publishes-other-volume")) {
    RETURN_IF_ERROR(driver_.state().Handle(asked, response));
    return published ? OkStatus() : PublishWrongly(on, asked);
  }
  const Status status = driver_.Handle(asked, response);
  if (on("publish-ignores-conflict") && status.code() == StatusCode::kAlreadyExists) {
    return OkStatus();
  }
  if (on("publish-unstaged") && status.code() == StatusCode::kFailedPrecondition) {
    return PublishWrongly(on, asked);
  }
  RETURN_IF_ERROR(status);
  if (on("publish-twice-mounts-twice") && published) {
    return driver_.Bind(asked.staging_target_path(), asked.target_path(), asked.readonly());
  }
  return OkStatus();
}

Status WrongDriver::Handle(const Switches::On& on,
                           const csi::v1::NodeUnpublishVolumeRequest& request,
                           csi::v1::NodeUnpublishVolumeResponse& response) {
  const std::string& target = request.target_path();
  if (on("unpublish-twice-fails") && !driver_.state().TargetPaths().contains(target)) {
    return Error(StatusCode::kNotFound, "not published");
  }
  if (on("unpublish-leaves-mount")) return driver_.state().Handle(request, response);
  RETURN_IF_ERROR(driver_.Handle(request, response));
  // The driver removes what "mounts-elsewhere" mounted, because nobody else knows of it.
  RETURN_IF_ERROR(driver_.Unmount(Beside(target)));
  rmdir(Beside(target).c_str());
  if (on("unpublish-leaves-target")) return platform::MakeFolders(target, 0755);
  return OkStatus();
}

Status WrongDriver::Handle(const Switches::On& on,
                           const csi::v1::NodeGetVolumeStatsRequest& request,
                           csi::v1::NodeGetVolumeStatsResponse& response) {
  const Status status = driver_.Handle(request, response);
  if (on("stats-of-elsewhere") && status.code() == StatusCode::kNotFound) {
    auto* usage = response.add_usage();
    usage->set_unit(csi::v1::VolumeUsage::BYTES);
    usage->set_total(1);
    return OkStatus();
  }
  RETURN_IF_ERROR(status);
  if (on("stats-negative")) {
    for (auto& usage : *response.mutable_usage()) usage.set_total(-1);
  }
  return OkStatus();
}

Status WrongDriver::Handle(const Switches::On& on, const csi::v1::NodeExpandVolumeRequest& request,
                           csi::v1::NodeExpandVolumeResponse& response) {
  RETURN_IF_ERROR(driver_.Handle(request, response));
  if (on("node-expand-below")) response.set_capacity_bytes(1);
  return OkStatus();
}

}  // namespace berth::doubles
