// What the double does wrong in the calls of the Identity and Controller services.
#include <algorithm>
#include <filesystem>

#include "wrong_driver.h"

namespace berth::doubles {
namespace {

using base::Error;
using base::OkStatus;
using base::Status;
using base::StatusCode;

const std::string kLong(2000, 'x');
const std::string kHuge(64 * 1024, 'x');

}  // namespace

Status WrongDriver::Handle(const Switches::On& on, const csi::v1::GetPluginInfoRequest& request,
                           csi::v1::GetPluginInfoResponse& response) {
  RETURN_IF_ERROR(driver_.Handle(request, response));
  if (on("name-empty")) response.clear_name();
  if (on("name-no-domain")) response.set_name("../other driver");
  return OkStatus();
}

Status WrongDriver::Handle(const Switches::On& on,
                           const csi::v1::GetPluginCapabilitiesRequest& request,
                           csi::v1::GetPluginCapabilitiesResponse& response) {
  if (on("capabilities-change") && ++count_ % 3 == 0) return OkStatus();
  return driver_.Handle(request, response);
}

Status WrongDriver::Handle(const Switches::On& on, const csi::v1::ProbeRequest& request,
                           csi::v1::ProbeResponse& response) {
  RETURN_IF_ERROR(driver_.Handle(request, response));
  if (on("never-ready")) response.mutable_ready()->set_value(false);
  return OkStatus();
}

Status WrongDriver::Handle(const Switches::On& on, const csi::v1::CreateVolumeRequest& request,
                           csi::v1::CreateVolumeResponse& response) {
  csi::v1::CreateVolumeRequest asked = request;
  csi::v1::Volume& volume = *response.mutable_volume();
  const auto ids = driver_.state().VolumeIds();
  if (on("create-not-idempotent")) asked.set_name(request.name() + "-" + Next());
  if (on("ignores-source")) asked.clear_volume_content_source();
  if (on("create-ignores-missing") && asked.volume_capabilities().empty()) {
    auto* capability = asked.add_volume_capabilities();
    capability->mutable_mount();
    capability->mutable_access_mode()->set_mode(
        csi::v1::VolumeCapability::AccessMode::SINGLE_NODE_WRITER);
  }
  if (on("two-names-one-volume") && !ids.empty()) {
    volume = driver_.state().FindVolume(ids.front())->volume;
    volume.set_capacity_bytes(
        std::max(volume.capacity_bytes(), request.capacity_range().required_bytes()));
    return OkStatus();
  }
  const Status status = driver_.Handle(asked, response);
  if (on("create-ignores-conflict") && status.code() == StatusCode::kAlreadyExists) {
    for (const std::string& id : ids) {
      const auto found = driver_.state().FindVolume(id);
      if (found.has_value() && found->name == request.name()) volume = found->volume;
    }
    return OkStatus();
  }
  RETURN_IF_ERROR(status);
  const auto& range = request.capacity_range();
  if (on("capacity-below-required")) volume.set_capacity_bytes(range.required_bytes() / 2);
  if (on("capacity-above-limit") && range.limit_bytes() > 0) {
    volume.set_capacity_bytes(2 * range.limit_bytes());
  }
  if (on("capacity-negative")) volume.set_capacity_bytes(-1);
  if (on("empty-volume-id")) volume.clear_volume_id();
  if (on("oversized-volume-id")) volume.set_volume_id(volume.volume_id() + kLong);
  if (on("oversized-context")) (*volume.mutable_volume_context())["note"] = kHuge;
  if (on("invalid-utf8")) (*volume.mutable_volume_context())["note"] = "\xff";
  if (on("other-source") && volume.has_content_source()) {
    volume.mutable_content_source()->mutable_volume()->set_volume_id("another");
  }
  if (on("wrong-topology")) {
    for (auto& topology : *volume.mutable_accessible_topology()) {
      for (auto& segment : *topology.mutable_segments()) segment.second = "elsewhere";
    }
  }
  return OkStatus();
}

Status WrongDriver::Handle(const Switches::On& on, const csi::v1::DeleteVolumeRequest& request,
                           csi::v1::DeleteVolumeResponse& response) {
  const bool known = driver_.state().FindVolume(request.volume_id()).has_value();
  if (on("delete-twice-fails") && !known) return Error(StatusCode::kNotFound, "no such volume");
  if (on("delete-keeps") && known) return OkStatus();
  const Status status = driver_.Handle(request, response);
  if (!on("deletes-in-use") || status.code() != StatusCode::kFailedPrecondition) return status;
  // The folder itself stays, because it may be mounted; everything in it is removed.
  std::error_code ignored;
  for (const auto& entry :
       std::filesystem::directory_iterator(driver_.VolumeFolder(request.volume_id()), ignored)) {
    std::filesystem::remove_all(entry.path(), ignored);
  }
  return status;
}

Status WrongDriver::Handle(const Switches::On& on,
                           const csi::v1::ValidateVolumeCapabilitiesRequest& request,
                           csi::v1::ValidateVolumeCapabilitiesResponse& response) {
  if (!on("confirms-anything")) return driver_.Handle(request, response);
  *response.mutable_confirmed()->mutable_volume_capabilities() = request.volume_capabilities();
  return OkStatus();
}

Status WrongDriver::Handle(const Switches::On& on, const csi::v1::ListVolumesRequest& request,
                           csi::v1::ListVolumesResponse& response) {
  csi::v1::ListVolumesRequest asked = request;
  if (on("endless-pages")) asked.clear_starting_token();
  Status status = driver_.Handle(asked, response);
  if (on("accepts-bad-token") && status.code() == StatusCode::kAborted) {
    status = driver_.Handle(csi::v1::ListVolumesRequest(), response);
  }
  if (on("endless-pages")) response.set_next_token("page-" + Next());
  return status;
}

Status WrongDriver::Handle(const Switches::On& on, const csi::v1::GetCapacityRequest& request,
                           csi::v1::GetCapacityResponse& response) {
  RETURN_IF_ERROR(driver_.Handle(request, response));
  if (on("free-negative")) response.set_available_capacity(-1);
  return OkStatus();
}

Status WrongDriver::Handle(const Switches::On& on,
                           const csi::v1::ControllerExpandVolumeRequest& request,
                           csi::v1::ControllerExpandVolumeResponse& response) {
  const auto before = driver_.state().FindVolume(request.volume_id());
  if (!on("expand-below") || !before.has_value()) return driver_.Handle(request, response);
  response.set_capacity_bytes(before->volume.capacity_bytes());
  return OkStatus();
}

Status WrongDriver::Handle(const Switches::On& on,
                           const csi::v1::ControllerPublishVolumeRequest& request,
                           csi::v1::ControllerPublishVolumeResponse& response) {
  const Status status = driver_.Handle(request, response);
  const bool known = driver_.state().FindVolume(request.volume_id()).has_value();
  const bool let_pass =
      (on("attaches-twice") && status.code() == StatusCode::kFailedPrecondition) ||
      (on("attaches-anywhere") && known && status.code() == StatusCode::kNotFound);
  if (!let_pass) RETURN_IF_ERROR(status);
  auto& context = *response.mutable_publish_context();
  if (on("publish-context-changes")) context["attempt"] = Next();
  if (on("oversized-publish-context")) context["note"] = kHuge;
  return OkStatus();
}

Status WrongDriver::Handle(const Switches::On& on,
                           const csi::v1::ControllerUnpublishVolumeRequest& request,
                           csi::v1::ControllerUnpublishVolumeResponse& response) {
  const auto volume = driver_.state().FindVolume(request.volume_id());
  const bool attached = volume.has_value() && volume->attached.contains(request.node_id());
  if (on("detach-twice-fails") && !attached) return Error(StatusCode::kNotFound, "not attached");
  if (on("detach-lies")) return OkStatus();
  return driver_.Handle(request, response);
}

Status WrongDriver::Handle(const Switches::On& on, const csi::v1::CreateSnapshotRequest& request,
                           csi::v1::CreateSnapshotResponse& response) {
  csi::v1::CreateSnapshotRequest asked = request;
  if (on("snapshot-not-idempotent")) asked.set_name(request.name() + "-" + Next());
  const Status status = driver_.Handle(asked, response);
  csi::v1::Snapshot& snapshot = *response.mutable_snapshot();
  if (on("snapshot-of-nothing") && status.code() == StatusCode::kNotFound) {
    snapshot.set_snapshot_id("snap-of-nothing");
    snapshot.set_source_volume_id(request.source_volume_id());
    snapshot.mutable_creation_time()->set_seconds(1);
    return OkStatus();
  }
  RETURN_IF_ERROR(status);
  if (on("snapshot-without-time")) snapshot.clear_creation_time();
  return OkStatus();
}

Status WrongDriver::Handle(const Switches::On& on, const csi::v1::ListSnapshotsRequest& request,
                           csi::v1::ListSnapshotsResponse& response) {
  RETURN_IF_ERROR(driver_.Handle(request, response));
  if (on("endless-pages")) response.set_next_token("page-" + Next());
  return OkStatus();
}

}  // namespace berth::doubles
