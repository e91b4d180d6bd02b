// The group snapshots of the CSI driver double (fake_csi_state.h).
#include <algorithm>

#include "rpc/fake_csi_state.h"

namespace berth::rpc {

using base::Error;
using base::OkStatus;
using base::Status;
using base::StatusCode;

std::vector<std::string> FakeCsiState::GroupIds() const {
  base::MutexLock lock(mutex_);
  std::vector<std::string> ids;
  for (const auto& [id, group] : groups_) ids.push_back(id);
  return ids;
}

csi::v1::VolumeGroupSnapshot FakeCsiState::DescribeGroup(const std::string& id) {
  csi::v1::VolumeGroupSnapshot group;
  group.set_group_snapshot_id(id);
  group.set_ready_to_use(true);
  for (const std::string& snapshot : groups_[id].snapshots) {
    *group.add_snapshots() = DescribeSnapshot(snapshot);
    if (!group.snapshots().rbegin()->ready_to_use()) group.set_ready_to_use(false);
  }
  if (!group.snapshots().empty()) {
    *group.mutable_creation_time() = group.snapshots(0).creation_time();
  }
  return group;
}

Status FakeCsiState::Handle(const csi::v1::GroupControllerGetCapabilitiesRequest&,
                            csi::v1::GroupControllerGetCapabilitiesResponse& response) {
  response.add_capabilities()->mutable_rpc()->set_type(
      csi::v1::GroupControllerServiceCapability::RPC::CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT);
  return OkStatus();
}

Status FakeCsiState::Handle(const csi::v1::CreateVolumeGroupSnapshotRequest& request,
                            csi::v1::CreateVolumeGroupSnapshotResponse& response) {
  RETURN_IF_ERROR(RequireField(request.name(), "name"));
  if (request.source_volume_ids().empty()) {
    return Error(StatusCode::kInvalidArgument, "source_volume_ids is missing");
  }
  base::MutexLock lock(mutex_);
  auto it = std::find_if(groups_.begin(), groups_.end(),
                         [&](const auto& entry) { return entry.second.name == request.name(); });
  if (it == groups_.end()) {
    for (const std::string& volume : request.source_volume_ids()) {
      RETURN_IF_ERROR(FindExisting(volume).status());  // all of them or none
    }
    const std::string id = fmt::format("group-{}", next_id_++);
    it = groups_.emplace(id, Group{.name = request.name(), .snapshots = {}}).first;
    std::vector<std::string> volumes(request.source_volume_ids().begin(),
                                     request.source_volume_ids().end());
    if (options_.cut_volumes) volumes = options_.cut_volumes(std::move(volumes));
    for (const std::string& volume : volumes) {
      ASSIGN_OR_RETURN(const csi::v1::Snapshot snapshot, CutSnapshot(volume));
      snapshots_[snapshot.snapshot_id()].set_group_snapshot_id(id);
      it->second.snapshots.push_back(snapshot.snapshot_id());
    }
  }
  *response.mutable_group_snapshot() = DescribeGroup(it->first);
  if (options_.on_group) options_.on_group(response);
  return OkStatus();
}

Status FakeCsiState::Handle(const csi::v1::DeleteVolumeGroupSnapshotRequest& request,
                            csi::v1::DeleteVolumeGroupSnapshotResponse&) {
  RETURN_IF_ERROR(RequireField(request.group_snapshot_id(), "group_snapshot_id"));
  base::MutexLock lock(mutex_);
  const auto it = groups_.find(request.group_snapshot_id());
  if (it == groups_.end()) return OkStatus();
  std::vector<std::string> named(request.snapshot_ids().begin(), request.snapshot_ids().end());
  std::vector<std::string> held = it->second.snapshots;
  std::sort(named.begin(), named.end());
  std::sort(held.begin(), held.end());
  if (named != held) {
    return Error(StatusCode::kInvalidArgument, "snapshot_ids are not those of group '{}'",
                 it->first);
  }
  for (const std::string& snapshot : held) snapshots_.erase(snapshot);
  groups_.erase(it);
  return OkStatus();
}

Status FakeCsiState::Handle(const csi::v1::GetVolumeGroupSnapshotRequest& request,
                            csi::v1::GetVolumeGroupSnapshotResponse& response) {
  base::MutexLock lock(mutex_);
  if (!groups_.contains(request.group_snapshot_id())) {
    return Error(StatusCode::kNotFound, "group '{}' does not exist", request.group_snapshot_id());
  }
  *response.mutable_group_snapshot() = DescribeGroup(request.group_snapshot_id());
  return OkStatus();
}

}  // namespace berth::rpc
