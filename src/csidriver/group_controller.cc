#include "csidriver/group_controller.h"

#include <set>

#include "base/log.h"
#include "csidriver/controller.h"
#include "csidriver/validate.h"

namespace berth::csidriver {
namespace {

using base::Error;
using base::StatusCode;
using Ids = google::protobuf::RepeatedPtrField<std::string>;

// The CO names the snapshots of a group, so that it notices if the two do not mean the same.
base::Status CheckMembers(const block::GroupRecord& group, const Ids& snapshot_ids) {
  const std::set<std::string> named(snapshot_ids.begin(), snapshot_ids.end());
  std::set<std::string> held;
  for (const auto& member : group.members) held.insert(member.snapshot_id);
  if (named == held) return base::OkStatus();
  return Error(StatusCode::kInvalidArgument, "'snapshot_ids' are not the {} snapshots of group {}",
               held.size(), base::Quote(group.id));
}

}  // namespace

base::StatusOr<csi::v1::VolumeGroupSnapshot> GroupController::DescribeGroup(
    const block::GroupRecord& group) const {
  csi::v1::VolumeGroupSnapshot described;
  described.set_group_snapshot_id(group.id);
  described.set_ready_to_use(true);
  SetTimestamp(group.created, *described.mutable_creation_time());
  for (const block::GroupRecord::Member& member : group.members) {
    ASSIGN_OR_RETURN(const block::Record snapshot,
                     pool_.Get(block::Kind::kSnapshot, member.snapshot_id));
    *described.add_snapshots() = DescribeSnapshot(snapshot);
  }
  return described;
}

base::StatusOr<csi::v1::GroupControllerGetCapabilitiesResponse>
GroupController::GroupControllerGetCapabilities(
    const csi::v1::GroupControllerGetCapabilitiesRequest& request) {
  csi::v1::GroupControllerGetCapabilitiesResponse response;
  response.add_capabilities()->mutable_rpc()->set_type(
      csi::v1::GroupControllerServiceCapability::RPC::CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT);
  return response;
}

base::StatusOr<csi::v1::CreateVolumeGroupSnapshotResponse>
GroupController::CreateVolumeGroupSnapshot(
    const csi::v1::CreateVolumeGroupSnapshotRequest& request) {
  RETURN_IF_ERROR(CheckLimits(request));
  RETURN_IF_ERROR(CheckName("name", request.name()));
  RETURN_IF_ERROR(CheckParameters(request.parameters()));
  const std::vector<std::string> volumes(request.source_volume_ids().begin(),
                                         request.source_volume_ids().end());
  if (volumes.empty()) {
    return Error(StatusCode::kInvalidArgument, "'source_volume_ids' is missing");
  }
  for (const std::string& volume : volumes) {
    RETURN_IF_ERROR(CheckGiven("source_volume_ids", volume));
  }
  ASSIGN_OR_RETURN(const block::GroupRecord group, pool_.CreateGroup(request.name(), volumes));
  csi::v1::CreateVolumeGroupSnapshotResponse response;
  ASSIGN_OR_RETURN(*response.mutable_group_snapshot(), DescribeGroup(group));
  return response;
}

base::StatusOr<csi::v1::DeleteVolumeGroupSnapshotResponse>
GroupController::DeleteVolumeGroupSnapshot(
    const csi::v1::DeleteVolumeGroupSnapshotRequest& request) {
  RETURN_IF_ERROR(CheckLimits(request));
  RETURN_IF_ERROR(CheckGiven("group_snapshot_id", request.group_snapshot_id()));
  const auto group = pool_.GetGroup(request.group_snapshot_id());
  // A group of which a crash left a part has no members that the CO could name; the rest goes.
  if (group.ok()) {
    RETURN_IF_ERROR(CheckMembers(*group, request.snapshot_ids()));
  } else if (group.status().code() != StatusCode::kNotFound) {
    return group.status();
  }
  RETURN_IF_ERROR(pool_.DeleteGroup(request.group_snapshot_id()));
  return csi::v1::DeleteVolumeGroupSnapshotResponse();
}

base::StatusOr<csi::v1::GetVolumeGroupSnapshotResponse> GroupController::GetVolumeGroupSnapshot(
    const csi::v1::GetVolumeGroupSnapshotRequest& request) {
  RETURN_IF_ERROR(CheckLimits(request));
  RETURN_IF_ERROR(CheckGiven("group_snapshot_id", request.group_snapshot_id()));
  ASSIGN_OR_RETURN(const block::GroupRecord group, pool_.GetGroup(request.group_snapshot_id()));
  RETURN_IF_ERROR(CheckMembers(group, request.snapshot_ids()));
  csi::v1::GetVolumeGroupSnapshotResponse response;
  ASSIGN_OR_RETURN(*response.mutable_group_snapshot(), DescribeGroup(group));
  return response;
}

}  // namespace berth::csidriver
