#include "rpc/fake_csi_state.h"

namespace berth::rpc {
namespace {

using base::Error;
using base::OkStatus;
using base::Status;
using base::StatusCode;

constexpr int64_t kDefaultBytes = int64_t{1} << 30;

}  // namespace

base::StatusOr<FakeCsiState::Volume*> FakeCsiState::FindExisting(const std::string& id) {
  RETURN_IF_ERROR(RequireField(id, "volume_id"));
  const auto it = volumes_.find(id);
  if (it == volumes_.end()) return Error(StatusCode::kNotFound, "volume '{}' does not exist", id);
  return &it->second;
}

FakeCsiState::Volume& FakeCsiState::FindOrMake(const std::string& id) {
  Volume& volume = volumes_[id];
  volume.volume.set_volume_id(id);
  return volume;
}

int64_t FakeCsiState::UsedBytes() const {
  int64_t used = 0;
  for (const auto& [id, volume] : volumes_) used += volume.volume.capacity_bytes();
  return used;
}

std::optional<FakeCsiState::Volume> FakeCsiState::FindVolume(const std::string& id) const {
  base::MutexLock lock(mutex_);
  const auto it = volumes_.find(id);
  if (it == volumes_.end()) return std::nullopt;
  return it->second;
}

std::vector<std::string> FakeCsiState::VolumeIds() const {
  base::MutexLock lock(mutex_);
  std::vector<std::string> ids;
  ids.reserve(volumes_.size());
  for (const auto& [id, volume] : volumes_) ids.push_back(id);
  return ids;
}

std::vector<std::string> FakeCsiState::SnapshotIds() const {
  base::MutexLock lock(mutex_);
  std::vector<std::string> ids;
  ids.reserve(snapshots_.size());
  for (const auto& [id, snapshot] : snapshots_) ids.push_back(id);
  return ids;
}

Status FakeCsiState::Handle(const csi::v1::GetPluginInfoRequest&,
                            csi::v1::GetPluginInfoResponse& response) {
  response.set_name(options_.name);
  response.set_vendor_version("1.0");
  response.mutable_manifest()->insert(options_.manifest.begin(), options_.manifest.end());
  return OkStatus();
}

Status FakeCsiState::Handle(const csi::v1::GetPluginCapabilitiesRequest&,
                            csi::v1::GetPluginCapabilitiesResponse& response) {
  for (const auto type : options_.plugin_capabilities) {
    response.add_capabilities()->mutable_service()->set_type(type);
  }
  return OkStatus();
}

Status FakeCsiState::Handle(const csi::v1::ProbeRequest&, csi::v1::ProbeResponse& response) {
  response.mutable_ready()->set_value(true);
  return OkStatus();
}

Status FakeCsiState::Handle(const csi::v1::ControllerGetCapabilitiesRequest&,
                            csi::v1::ControllerGetCapabilitiesResponse& response) {
  for (const auto type : options_.controller_capabilities) {
    response.add_capabilities()->mutable_rpc()->set_type(type);
  }
  return OkStatus();
}

Status FakeCsiState::Handle(const csi::v1::CreateVolumeRequest& request,
                            csi::v1::CreateVolumeResponse& response) {
  RETURN_IF_ERROR(RequireField(request.name(), "name"));
  if (request.volume_capabilities().empty()) return RequireField("", "volume_capabilities");
  const int64_t wanted = std::max<int64_t>(request.capacity_range().required_bytes(), 0);
  const int64_t limit = request.capacity_range().limit_bytes();
  base::MutexLock lock(mutex_);
  for (const auto& [id, volume] : volumes_) {
    if (volume.name != request.name()) continue;
    const int64_t has = volume.volume.capacity_bytes();
    if (has < wanted || (limit > 0 && has > limit)) {
      return Error(StatusCode::kAlreadyExists, "volume '{}' exists with {} bytes", volume.name,
                   has);
    }
    *response.mutable_volume() = volume.volume;
    return OkStatus();
  }
  int64_t bytes = wanted > 0 ? wanted : kDefaultBytes;
  if (limit > 0) bytes = std::min(bytes, limit);
  if (UsedBytes() + bytes > options_.capacity_bytes) {
    return Error(StatusCode::kOutOfRange, "{} bytes are more than is left", bytes);
  }
  const auto& source = request.volume_content_source();
  if (source.has_snapshot() && !snapshots_.contains(source.snapshot().snapshot_id())) {
    return Error(StatusCode::kNotFound, "snapshot '{}' does not exist",
                 source.snapshot().snapshot_id());
  }
  if (source.has_volume()) RETURN_IF_ERROR(FindExisting(source.volume().volume_id()));

  Volume& volume = FindOrMake(fmt::format("vol-{}", next_id_++));
  volume.name = request.name();
  volume.volume.set_capacity_bytes(bytes);
  *volume.volume.mutable_volume_context() = request.parameters();
  if (request.has_volume_content_source()) *volume.volume.mutable_content_source() = source;
  if (request.accessibility_requirements().preferred_size() > 0) {
    *volume.volume.add_accessible_topology() = request.accessibility_requirements().preferred(0);
  } else if (!options_.topology.empty()) {
    auto& segments = *volume.volume.add_accessible_topology()->mutable_segments();
    segments.insert(options_.topology.begin(), options_.topology.end());
  }
  *response.mutable_volume() = volume.volume;
  return OkStatus();
}

Status FakeCsiState::Handle(const csi::v1::DeleteVolumeRequest& request,
                            csi::v1::DeleteVolumeResponse&) {
  RETURN_IF_ERROR(RequireField(request.volume_id(), "volume_id"));
  base::MutexLock lock(mutex_);
  const auto it = volumes_.find(request.volume_id());
  if (it == volumes_.end()) return OkStatus();
  const Volume& volume = it->second;
  if (!volume.attached.empty() || !volume.staged.empty() || !volume.published.empty()) {
    return Error(StatusCode::kFailedPrecondition, "volume '{}' is in use", request.volume_id());
  }
  volumes_.erase(it);
  return OkStatus();
}

Status FakeCsiState::Handle(const csi::v1::ControllerPublishVolumeRequest& request,
                            csi::v1::ControllerPublishVolumeResponse& response) {
  RETURN_IF_ERROR(RequireField(request.node_id(), "node_id"));
  base::MutexLock lock(mutex_);
  ASSIGN_OR_RETURN(Volume * volume, FindExisting(request.volume_id()));
  const auto it = volume->attached.find(request.node_id());
  if (it != volume->attached.end() && it->second != request.readonly()) {
    return Error(StatusCode::kAlreadyExists, "volume '{}' is published with another readonly",
                 request.volume_id());
  }
  volume->attached[request.node_id()] = request.readonly();
  (*response.mutable_publish_context())["device"] = "/dev/" + request.volume_id();
  return OkStatus();
}

Status FakeCsiState::Handle(const csi::v1::ControllerUnpublishVolumeRequest& request,
                            csi::v1::ControllerUnpublishVolumeResponse&) {
  RETURN_IF_ERROR(RequireField(request.volume_id(), "volume_id"));
  base::MutexLock lock(mutex_);
  const auto it = volumes_.find(request.volume_id());
  if (it == volumes_.end()) return OkStatus();
  if (request.node_id().empty()) {
    it->second.attached.clear();
  } else {
    it->second.attached.erase(request.node_id());
  }
  return OkStatus();
}

Status FakeCsiState::Handle(const csi::v1::ValidateVolumeCapabilitiesRequest& request,
                            csi::v1::ValidateVolumeCapabilitiesResponse& response) {
  base::MutexLock lock(mutex_);
  RETURN_IF_ERROR(FindExisting(request.volume_id()));
  *response.mutable_confirmed()->mutable_volume_capabilities() = request.volume_capabilities();
  *response.mutable_confirmed()->mutable_volume_context() = request.volume_context();
  return OkStatus();
}

Status FakeCsiState::Handle(const csi::v1::ListVolumesRequest& request,
                            csi::v1::ListVolumesResponse& response) {
  base::MutexLock lock(mutex_);
  // A token is the last volume of the page before.
  for (auto it = volumes_.upper_bound(request.starting_token()); it != volumes_.end(); ++it) {
    if (request.max_entries() > 0 && response.entries_size() == request.max_entries()) {
      response.set_next_token(std::prev(it)->first);
      return OkStatus();
    }
    auto* entry = response.add_entries();
    *entry->mutable_volume() = it->second.volume;
    for (const auto& [node, readonly] : it->second.attached) {
      entry->mutable_status()->add_published_node_ids(node);
    }
  }
  response.set_next_token(NextToken());
  return OkStatus();
}

Status FakeCsiState::Handle(const csi::v1::ControllerGetVolumeRequest& request,
                            csi::v1::ControllerGetVolumeResponse& response) {
  base::MutexLock lock(mutex_);
  ASSIGN_OR_RETURN(const Volume* volume, FindExisting(request.volume_id()));
  *response.mutable_volume() = volume->volume;
  for (const auto& [node, readonly] : volume->attached) {
    response.mutable_status()->add_published_node_ids(node);
  }
  return OkStatus();
}

Status FakeCsiState::Handle(const csi::v1::GetCapacityRequest&,
                            csi::v1::GetCapacityResponse& response) {
  base::MutexLock lock(mutex_);
  response.set_available_capacity(std::max<int64_t>(options_.capacity_bytes - UsedBytes(), 0));
  return OkStatus();
}

Status FakeCsiState::Handle(const csi::v1::ControllerExpandVolumeRequest& request,
                            csi::v1::ControllerExpandVolumeResponse& response) {
  base::MutexLock lock(mutex_);
  ASSIGN_OR_RETURN(Volume * volume, FindExisting(request.volume_id()));
  const int64_t wanted = request.capacity_range().required_bytes();
  const int64_t has = volume->volume.capacity_bytes();
  if (UsedBytes() - has + wanted > options_.capacity_bytes) {
    return Error(StatusCode::kOutOfRange, "{} bytes are more than is left", wanted);
  }
  volume->volume.set_capacity_bytes(std::max(has, wanted));
  response.set_capacity_bytes(volume->volume.capacity_bytes());
  response.set_node_expansion_required(options_.node_capabilities.contains(NodeRpc::EXPAND_VOLUME));
  if (options_.on_expand) options_.on_expand(response);
  return OkStatus();
}

Status FakeCsiState::Handle(const csi::v1::ControllerModifyVolumeRequest& request,
                            csi::v1::ControllerModifyVolumeResponse&) {
  base::MutexLock lock(mutex_);
  ASSIGN_OR_RETURN(Volume * volume, FindExisting(request.volume_id()));
  if (const auto iops = request.mutable_parameters().find("iops");
      iops != request.mutable_parameters().end() && std::atoi(iops->second.c_str()) <= 0) {
    return Error(StatusCode::kInvalidArgument, "iops is '{}', which is no positive number",
                 iops->second);
  }
  for (const auto& [key, value] : request.mutable_parameters()) {
    (*volume->volume.mutable_volume_context())[key] = value;
  }
  return OkStatus();
}

std::string FakeCsiState::NextToken() {
  return options_.endless_pages ? fmt::format("page-{}", next_id_++) : "";
}

csi::v1::Snapshot FakeCsiState::DescribeSnapshot(const std::string& id) {
  csi::v1::Snapshot snapshot = snapshots_[id];
  if (int& left = uploads_[id]; left > 0) {
    --left;
    snapshot.set_ready_to_use(false);
  }
  return snapshot;
}

base::StatusOr<csi::v1::Snapshot> FakeCsiState::CutSnapshot(const std::string& volume_id) {
  ASSIGN_OR_RETURN(const Volume* volume, FindExisting(volume_id));
  csi::v1::Snapshot snapshot;
  snapshot.set_snapshot_id(fmt::format("snap-{}", next_id_++));
  snapshot.set_source_volume_id(volume_id);
  snapshot.set_size_bytes(volume->volume.capacity_bytes());
  snapshot.mutable_creation_time()->set_seconds(1767225600 + next_id_);
  snapshot.set_ready_to_use(true);
  snapshots_[snapshot.snapshot_id()] = snapshot;
  uploads_[snapshot.snapshot_id()] = options_.snapshot_uploads;
  return snapshot;
}

Status FakeCsiState::Handle(const csi::v1::CreateSnapshotRequest& request,
                            csi::v1::CreateSnapshotResponse& response) {
  RETURN_IF_ERROR(RequireField(request.name(), "name"));
  base::MutexLock lock(mutex_);
  if (const auto it = snapshot_names_.find(request.name()); it != snapshot_names_.end()) {
    const csi::v1::Snapshot& existing = snapshots_[it->second];
    if (existing.source_volume_id() != request.source_volume_id()) {
      return Error(StatusCode::kAlreadyExists, "snapshot '{}' is of another volume",
                   request.name());
    }
    *response.mutable_snapshot() = DescribeSnapshot(it->second);
    if (options_.on_snapshot) options_.on_snapshot(response);
    return OkStatus();
  }
  ASSIGN_OR_RETURN(const csi::v1::Snapshot snapshot, CutSnapshot(request.source_volume_id()));
  snapshot_names_[request.name()] = snapshot.snapshot_id();
  *response.mutable_snapshot() = DescribeSnapshot(snapshot.snapshot_id());
  if (options_.on_snapshot) options_.on_snapshot(response);
  return OkStatus();
}

Status FakeCsiState::Handle(const csi::v1::DeleteSnapshotRequest& request,
                            csi::v1::DeleteSnapshotResponse&) {
  RETURN_IF_ERROR(RequireField(request.snapshot_id(), "snapshot_id"));
  base::MutexLock lock(mutex_);
  const auto it = snapshots_.find(request.snapshot_id());
  if (it != snapshots_.end() && !it->second.group_snapshot_id().empty()) {
    return Error(StatusCode::kInvalidArgument, "snapshot '{}' belongs to group '{}'",
                 request.snapshot_id(), it->second.group_snapshot_id());
  }
  snapshots_.erase(request.snapshot_id());
  std::erase_if(snapshot_names_,
                [&](const auto& name) { return name.second == request.snapshot_id(); });
  return OkStatus();
}

Status FakeCsiState::Handle(const csi::v1::ListSnapshotsRequest& request,
                            csi::v1::ListSnapshotsResponse& response) {
  base::MutexLock lock(mutex_);
  for (const auto& [id, snapshot] : snapshots_) {
    if (!request.snapshot_id().empty() && request.snapshot_id() != id) continue;
    if (!request.source_volume_id().empty() &&
        request.source_volume_id() != snapshot.source_volume_id()) {
      continue;
    }
    *response.add_entries()->mutable_snapshot() = DescribeSnapshot(id);
  }
  if (options_.on_snapshot_list) options_.on_snapshot_list(response);
  response.set_next_token(NextToken());
  return OkStatus();
}

Status FakeCsiState::Handle(const csi::v1::GetSnapshotRequest& request,
                            csi::v1::GetSnapshotResponse& response) {
  base::MutexLock lock(mutex_);
  const auto it = snapshots_.find(request.snapshot_id());
  if (it == snapshots_.end()) {
    return Error(StatusCode::kNotFound, "snapshot '{}' does not exist", request.snapshot_id());
  }
  *response.mutable_snapshot() = DescribeSnapshot(it->first);
  return OkStatus();
}

}  // namespace berth::rpc
