#include "csidriver/controller.h"

#include "base/log.h"

namespace berth::csidriver {
namespace {

using base::Error;
using base::StatusCode;
using block::Kind;

// Keeps a reply well below gRPC's 4 MiB even with the longest names.
constexpr size_t kMaxPage = 4096;

// Why a volume does not have the requested capabilities and context; empty: it has them.
std::string FindMismatch(const block::Record& volume,
                         const csi::v1::ValidateVolumeCapabilitiesRequest& request,
                         const Offer& offer) {
  const auto capabilities = ParseCapabilities(request.volume_capabilities(), offer);
  if (!capabilities.ok()) return std::string(base::Message(capabilities.status()));
  for (const Capability& capability : *capabilities) {
    if (capability.access != volume.access) {
      return fmt::format("the volume is a {} volume", block::NameOf(volume.access));
    }
    if (!capability.fs_type.empty() && capability.fs_type != volume.fs_type) {
      return fmt::format("the volume has {}", volume.fs_type);
    }
  }
  if (const base::Status parameters = CheckParameters(request.parameters()); !parameters.ok()) {
    return std::string(base::Message(parameters));
  }
  if (!request.mutable_parameters().empty()) return "mutable_parameters are not supported";
  for (const auto& [key, value] : request.volume_context()) {
    // This driver gives volumes no context, but Kubernetes' sidecars add keys to it.
    if (!key.starts_with("storage.kubernetes.io/") && !key.starts_with("csi.storage.k8s.io/")) {
      return fmt::format("the volume has no {} in its context", base::Quote(key));
    }
  }
  return "";
}

// Lists the volumes without the inline ones, because an inline volume belongs to its pod only.
std::vector<block::Record> ListNonInlineVolumes(const block::Pool& pool) {
  std::vector<block::Record> volumes = pool.List(Kind::kVolume);
  std::erase_if(volumes, [](const block::Record& each) { return !each.inline_target.empty(); });
  return volumes;
}

}  // namespace

void SetTimestamp(base::WallTime time, google::protobuf::Timestamp& timestamp) {
  const auto nanos =
      std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
  timestamp.set_seconds(nanos / 1'000'000'000);
  timestamp.set_nanos(static_cast<int32_t>(nanos % 1'000'000'000));
}

csi::v1::Snapshot DescribeSnapshot(const block::Record& record) {
  csi::v1::Snapshot snapshot;
  snapshot.set_snapshot_id(record.id);
  snapshot.set_source_volume_id(record.source.id);
  snapshot.set_size_bytes(record.size_bytes);
  snapshot.set_ready_to_use(true);
  snapshot.set_group_snapshot_id(record.group);
  SetTimestamp(record.created, *snapshot.mutable_creation_time());
  return snapshot;
}

base::StatusOr<std::vector<block::Record>> MakePage(std::vector<block::Record> records,
                                                    int32_t max_entries, const std::string& token,
                                                    std::string& next) {
  if (!token.empty()) {
    if (!block::IsId(token)) {
      return Error(StatusCode::kAborted, "'starting_token' {} is not a token of this driver",
                   base::Quote(token));
    }
    std::erase_if(records, [&](const block::Record& record) { return record.id <= token; });
  }
  const size_t limit = max_entries > 0 ? std::min<size_t>(max_entries, kMaxPage) : kMaxPage;
  if (records.size() > limit) {
    records.resize(limit);
    next = records.back().id;
  }
  return records;
}

csi::v1::Volume Controller::DescribeVolume(const block::Record& record) const {
  csi::v1::Volume volume;
  volume.set_volume_id(record.id);
  volume.set_capacity_bytes(record.size_bytes);
  (*volume.add_accessible_topology()->mutable_segments())[offer_.topology_key] = offer_.node_id;
  if (!record.source.id.empty()) {
    auto& source = *volume.mutable_content_source();
    if (record.source.kind == Kind::kSnapshot) {
      source.mutable_snapshot()->set_snapshot_id(record.source.id);
    } else {
      source.mutable_volume()->set_volume_id(record.source.id);
    }
  }
  return volume;
}

csi::v1::VolumeCondition Controller::CheckCondition(const block::Record& record) const {
  csi::v1::VolumeCondition condition;
  const base::Status image = pool_.CheckImage(record);
  condition.set_abnormal(!image.ok());
  condition.set_message(image.ok() ? "the volume is well" : std::string(base::Message(image)));
  return condition;
}

base::StatusOr<csi::v1::CreateVolumeResponse> Controller::CreateVolume(
    const csi::v1::CreateVolumeRequest& request) {
  ASSIGN_OR_RETURN(const block::NewVolume wanted, ParseCreateVolume(request, offer_));
  ASSIGN_OR_RETURN(const block::Record record, pool_.CreateVolume(wanted));
  csi::v1::CreateVolumeResponse response;
  *response.mutable_volume() = DescribeVolume(record);
  return response;
}

base::StatusOr<csi::v1::DeleteVolumeResponse> Controller::DeleteVolume(
    const csi::v1::DeleteVolumeRequest& request) {
  RETURN_IF_ERROR(CheckLimits(request));
  RETURN_IF_ERROR(CheckGiven("volume_id", request.volume_id()));
  RETURN_IF_ERROR(pool_.DeleteVolume(request.volume_id()));
  return csi::v1::DeleteVolumeResponse();
}

base::StatusOr<csi::v1::ValidateVolumeCapabilitiesResponse> Controller::ValidateVolumeCapabilities(
    const csi::v1::ValidateVolumeCapabilitiesRequest& request) {
  RETURN_IF_ERROR(CheckLimits(request));
  if (request.volume_id().empty() || request.volume_capabilities().empty()) {
    return Error(StatusCode::kInvalidArgument, "'{}' is missing",
                 request.volume_id().empty() ? "volume_id" : "volume_capabilities");
  }
  ASSIGN_OR_RETURN(const block::Record record, pool_.Get(Kind::kVolume, request.volume_id()));
  csi::v1::ValidateVolumeCapabilitiesResponse response;
  if (const std::string why = FindMismatch(record, request, offer_); !why.empty()) {
    response.set_message(why);
    return response;
  }
  auto& confirmed = *response.mutable_confirmed();
  *confirmed.mutable_volume_context() = request.volume_context();
  *confirmed.mutable_volume_capabilities() = request.volume_capabilities();
  *confirmed.mutable_parameters() = request.parameters();
  return response;
}

base::StatusOr<csi::v1::ListVolumesResponse> Controller::ListVolumes(
    const csi::v1::ListVolumesRequest& request) {
  RETURN_IF_ERROR(CheckLimits(request));
  csi::v1::ListVolumesResponse response;
  ASSIGN_OR_RETURN(const std::vector<block::Record> page,
                   MakePage(ListNonInlineVolumes(pool_), request.max_entries(),
                            request.starting_token(), *response.mutable_next_token()));
  for (const block::Record& record : page) {
    auto& entry = *response.add_entries();
    *entry.mutable_volume() = DescribeVolume(record);
    *entry.mutable_status()->mutable_volume_condition() = CheckCondition(record);
  }
  return response;
}

base::StatusOr<csi::v1::GetCapacityResponse> Controller::GetCapacity(
    const csi::v1::GetCapacityRequest& request) {
  RETURN_IF_ERROR(CheckLimits(request));
  RETURN_IF_ERROR(CheckParameters(request.parameters()));
  csi::v1::GetCapacityResponse response;
  std::string fs_type = offer_.fs_types.at(0);
  if (!request.volume_capabilities().empty()) {
    // The capacity for unsupported capabilities is zero, and not an error.
    const auto capabilities = ParseCapabilities(request.volume_capabilities(), offer_);
    if (!capabilities.ok()) return response;
    const Capability& first = capabilities->front();
    if (first.access == block::AccessType::kBlock) fs_type.clear();
    if (!first.fs_type.empty()) fs_type = first.fs_type;
  }
  if (request.has_accessible_topology() &&
      !IncludesThisNode(request.accessible_topology(), offer_)) {
    return response;
  }
  ASSIGN_OR_RETURN(const block::Capacity capacity, pool_.GetCapacity());
  response.set_available_capacity(capacity.available_bytes);
  // Kubernetes' scheduler compares claims with the maximum if it is set, so the maximum is the size
  // that can be made now.
  response.mutable_maximum_volume_size()->set_value(capacity.available_bytes);
  response.mutable_minimum_volume_size()->set_value(block::MinimumSize(fs_type));
  return response;
}

base::StatusOr<csi::v1::ControllerGetCapabilitiesResponse> Controller::ControllerGetCapabilities(
    const csi::v1::ControllerGetCapabilitiesRequest& request) {
  using Rpc = csi::v1::ControllerServiceCapability::RPC;
  csi::v1::ControllerGetCapabilitiesResponse response;
  for (const auto type :
       {Rpc::CREATE_DELETE_VOLUME, Rpc::LIST_VOLUMES, Rpc::GET_CAPACITY,
        Rpc::CREATE_DELETE_SNAPSHOT, Rpc::LIST_SNAPSHOTS, Rpc::CLONE_VOLUME, Rpc::EXPAND_VOLUME,
        Rpc::VOLUME_CONDITION, Rpc::GET_VOLUME, Rpc::SINGLE_NODE_MULTI_WRITER}) {
    response.add_capabilities()->mutable_rpc()->set_type(type);
  }
  return response;
}

base::StatusOr<csi::v1::CreateSnapshotResponse> Controller::CreateSnapshot(
    const csi::v1::CreateSnapshotRequest& request) {
  RETURN_IF_ERROR(CheckLimits(request));
  RETURN_IF_ERROR(CheckName("name", request.name()));
  RETURN_IF_ERROR(CheckParameters(request.parameters()));
  RETURN_IF_ERROR(CheckGiven("source_volume_id", request.source_volume_id()));
  ASSIGN_OR_RETURN(const block::Record record,
                   pool_.CreateSnapshot(request.source_volume_id(), request.name()));
  csi::v1::CreateSnapshotResponse response;
  *response.mutable_snapshot() = DescribeSnapshot(record);
  return response;
}

base::StatusOr<csi::v1::DeleteSnapshotResponse> Controller::DeleteSnapshot(
    const csi::v1::DeleteSnapshotRequest& request) {
  RETURN_IF_ERROR(CheckLimits(request));
  RETURN_IF_ERROR(CheckGiven("snapshot_id", request.snapshot_id()));
  RETURN_IF_ERROR(pool_.DeleteSnapshot(request.snapshot_id()));
  return csi::v1::DeleteSnapshotResponse();
}

base::StatusOr<csi::v1::ListSnapshotsResponse> Controller::ListSnapshots(
    const csi::v1::ListSnapshotsRequest& request) {
  RETURN_IF_ERROR(CheckLimits(request));
  std::vector<block::Record> records = pool_.List(Kind::kSnapshot);
  std::erase_if(records, [&](const block::Record& record) {
    return (!request.snapshot_id().empty() && record.id != request.snapshot_id()) ||
           (!request.source_volume_id().empty() && record.source.id != request.source_volume_id());
  });
  csi::v1::ListSnapshotsResponse response;
  ASSIGN_OR_RETURN(const std::vector<block::Record> page,
                   MakePage(std::move(records), request.max_entries(), request.starting_token(),
                            *response.mutable_next_token()));
  for (const block::Record& record : page) {
    *response.add_entries()->mutable_snapshot() = DescribeSnapshot(record);
  }
  return response;
}

base::StatusOr<csi::v1::ControllerExpandVolumeResponse> Controller::ControllerExpandVolume(
    const csi::v1::ControllerExpandVolumeRequest& request) {
  RETURN_IF_ERROR(CheckLimits(request));
  RETURN_IF_ERROR(CheckVolumeId(request.volume_id()));
  const csi::v1::CapacityRange& range = request.capacity_range();
  if (range.required_bytes() == 0 && range.limit_bytes() == 0) {
    return Error(StatusCode::kInvalidArgument, "'capacity_range' is missing");
  }
  if (request.has_volume_capability()) {
    ASSIGN_OR_RETURN(const Capability capability,
                     ParseCapability(request.volume_capability(), offer_));
    ASSIGN_OR_RETURN(const block::Record volume, pool_.Get(Kind::kVolume, request.volume_id()));
    if (capability.access != volume.access) {
      return Error(StatusCode::kInvalidArgument, "volume {} is a {} volume", base::Quote(volume.id),
                   block::NameOf(volume.access));
    }
  }
  ASSIGN_OR_RETURN(
      const block::Record grown,
      pool_.GrowVolume(request.volume_id(), {range.required_bytes(), range.limit_bytes()}));
  csi::v1::ControllerExpandVolumeResponse response;
  response.set_capacity_bytes(grown.size_bytes);
  // The node must grow the device, also for a raw block volume.
  response.set_node_expansion_required(true);
  return response;
}

base::StatusOr<csi::v1::ControllerGetVolumeResponse> Controller::ControllerGetVolume(
    const csi::v1::ControllerGetVolumeRequest& request) {
  RETURN_IF_ERROR(CheckLimits(request));
  RETURN_IF_ERROR(CheckVolumeId(request.volume_id()));
  ASSIGN_OR_RETURN(const block::Record record, pool_.Get(Kind::kVolume, request.volume_id()));
  csi::v1::ControllerGetVolumeResponse response;
  *response.mutable_volume() = DescribeVolume(record);
  *response.mutable_status()->mutable_volume_condition() = CheckCondition(record);
  return response;
}

}  // namespace berth::csidriver
