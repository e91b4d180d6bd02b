#include "base/fault.h"
#include "base/log.h"
#include "csidriver/node.h"
#include "platform/file_systems/file_system.h"
#include "platform/walks/usage.h"

namespace berth::csidriver {
namespace {

using base::Error;
using base::StatusCode;

base::Status NotThereError(const std::string& id, const std::string& path) {
  return Error(StatusCode::kNotFound, "volume {} is neither staged nor published at {}",
               base::Quote(id), base::Quote(path));
}

// Whether the volume is staged or published at `path`.
bool IsVolumeAt(const block::Record& volume, const Presence& presence, const std::string& path) {
  const Found found = presence.FindAt(path);
  if (found == Found::kOurs) return true;
  if (!presence.recorded().has_value() || !presence.device().has_value()) return false;
  if (volume.access == block::AccessType::kBlock)
    return presence.recorded()->staging_path.text() == path;
  if (found == Found::kForeign) return false;
  if (presence.recorded()->staging_path.text() == path) {
    return volume.content == block::Content::kFormatted;
  }
  const std::vector<PublishedTarget> targets = presence.FindTargets();
  return std::ranges::find(targets, platform::TargetPath(path), &PublishedTarget::path) !=
         targets.end();
}

bool HasOption(const std::vector<std::string>& options, std::string_view option) {
  return std::ranges::find(options, option) != options.end();
}

// Says how the kernel stopped writing to a file system that was mounted for writing, as it does
// after an error; empty: it did not.
std::string DescribeProblem(const platform::MountEntry& mount) {
  for (const char* sign : {"shutdown", "emergency_ro"}) {
    if (HasOption(mount.super_options, sign)) {
      return fmt::format("the file system went to '{}'", sign);
    }
  }
  if (HasOption(mount.super_options, "ro") && !mount.read_only()) {
    return "the file system was made read-only after an error";
  }
  return "";
}

void SetCondition(const std::string& problem, csi::v1::VolumeCondition& condition) {
  condition.set_abnormal(!problem.empty());
  condition.set_message(problem.empty() ? "the volume is well" : problem);
}

void AddUsage(csi::v1::VolumeUsage::Unit unit, int64_t total, int64_t used, int64_t available,
              csi::v1::NodeGetVolumeStatsResponse& response) {
  csi::v1::VolumeUsage& usage = *response.add_usage();
  usage.set_unit(unit);
  usage.set_total(total);
  usage.set_used(used);
  usage.set_available(available);
}

base::Status CheckCapacityRange(const csi::v1::CapacityRange& range, int64_t size) {
  if (range.required_bytes() > size) {
    return Error(StatusCode::kOutOfRange,
                 "{} bytes are required, but the volume has {}: call ControllerExpandVolume first",
                 range.required_bytes(), size);
  }
  if (range.limit_bytes() > 0 && size > range.limit_bytes()) {
    return Error(StatusCode::kOutOfRange, "the volume has {} bytes, above the limit of {}", size,
                 range.limit_bytes());
  }
  return base::OkStatus();
}

}  // namespace

base::StatusOr<csi::v1::NodeGetVolumeStatsResponse> Node::NodeGetVolumeStats(
    const csi::v1::NodeGetVolumeStatsRequest& request) {
  RETURN_IF_ERROR(CheckLimits(request));
  // A missing path is told before an unknown volume, and a path that is wrong after it.
  RETURN_IF_ERROR(CheckGiven("volume_path", request.volume_path()));
  ASSIGN_OR_RETURN(const std::string id, FindPoolId(request.volume_id()));
  ASSIGN_OR_RETURN(const block::Record volume, pool_.Get(block::Kind::kVolume, id));
  // No volume is ever at a relative path.
  if (!request.volume_path().starts_with('/')) {
    return NotThereError(volume.id, request.volume_path());
  }
  ASSIGN_OR_RETURN(std::string path, CheckPath("volume_path", request.volume_path()));
  if (const auto resolved = platform::ResolveMountPoint(path); resolved.ok()) path = *resolved;
  ASSIGN_OR_RETURN(const Presence presence, FindPresence(volume.id));
  if (!IsVolumeAt(volume, presence, path)) return NotThereError(volume.id, path);
  csi::v1::NodeGetVolumeStatsResponse response;
  if (presence.IsDeferred()) {
    // Only the kernel that has the volume mounted knows its usage and condition.
    if (!request.runtime_supports_stats()) {
      return Error(StatusCode::kFailedPrecondition,
                   "the mount of volume {} is deferred to a container runtime, and that runtime "
                   "does not report statistics",
                   base::Quote(volume.id));
    }
    response.set_source(presence.device()->path);
    return response;
  }
  if (volume.access == block::AccessType::kMount && presence.FindAt(path) != Found::kOurs) {
    return Error(StatusCode::kFailedPrecondition,
                 "volume {} is staged but not published, so it is not mounted and has no "
                 "statistics yet",
                 base::Quote(volume.id));
  }
  std::string problem;
  if (const base::Status image = pool_.CheckImage(volume); !image.ok()) {
    problem = base::Message(image);
  }
  if (volume.access == block::AccessType::kBlock) {
    csi::v1::VolumeUsage& usage = *response.add_usage();
    usage.set_unit(csi::v1::VolumeUsage::BYTES);
    usage.set_total(static_cast<int64_t>(presence.device()->size));
  } else {
    ASSIGN_OR_RETURN(const platform::FileSystemUsage usage, platform::GetFileSystemUsage(path));
    AddUsage(csi::v1::VolumeUsage::BYTES, usage.total_bytes, usage.used_bytes,
             usage.available_bytes, response);
    AddUsage(csi::v1::VolumeUsage::INODES, usage.total_inodes, usage.used_inodes,
             usage.available_inodes, response);
    // The mount at staging is checked, because it has the volume's own options, while the bind
    // mount at a target may be read-only by itself.
    const platform::MountEntry* mount =
        presence.recorded().has_value() ? presence.MountAt(presence.recorded()->staging_path.text())
                                        : presence.MountAt(path);
    if (problem.empty() && mount != nullptr) problem = DescribeProblem(*mount);
  }
  SetCondition(problem, *response.mutable_volume_condition());
  return response;
}

base::StatusOr<csi::v1::NodeExpandVolumeResponse> Node::NodeExpandVolume(
    const csi::v1::NodeExpandVolumeRequest& request) {
  RETURN_IF_ERROR(CheckLimits(request));
  RETURN_IF_ERROR(CheckGiven("volume_path", request.volume_path()));
  RETURN_IF_ERROR(CheckVolumeId(request.volume_id()));
  ASSIGN_OR_RETURN(std::string path, CheckPath("volume_path", request.volume_path()));
  ASSIGN_OR_RETURN(const auto hold, pool_.LockVolume(request.volume_id()));
  ASSIGN_OR_RETURN(block::Record volume, pool_.Get(block::Kind::kVolume, request.volume_id()));
  if (request.has_volume_capability()) {
    ASSIGN_OR_RETURN(const Capability capability,
                     ParseCapability(request.volume_capability(), offer_));
    if (capability.access != volume.access) {
      return Error(StatusCode::kInvalidArgument, "volume {} is a {} volume", base::Quote(volume.id),
                   block::NameOf(volume.access));
    }
  }
  RETURN_IF_ERROR(CheckCapacityRange(request.capacity_range(), volume.size_bytes));
  if (const auto resolved = platform::ResolveMountPoint(path); resolved.ok()) path = *resolved;
  ASSIGN_OR_RETURN(const Presence presence, FindPresence(volume.id));
  if (!IsVolumeAt(volume, presence, path)) return NotThereError(volume.id, path);
  ASSIGN_OR_RETURN(const platform::LoopDevice device, pool_.Map(volume.id));
  csi::v1::NodeExpandVolumeResponse response;
  response.set_capacity_bytes(static_cast<int64_t>(device.size));
  if (presence.IsDeferred()) {
    if (!request.runtime_supports_expand()) {
      return Error(StatusCode::kFailedPrecondition,
                   "the device of volume {} has {} bytes now, but its mount is deferred to a "
                   "container runtime that cannot grow a file system: it grows at the next use",
                   base::Quote(volume.id), device.size);
    }
    // grow_file_system stays set: before the next use the node finds out whether the runtime grew
    // the file system.
    response.set_source(device.path);
    return response;
  }
  if (!volume.grow_file_system) return response;
  // The runtime may still have the volume mounted. The volume is prepared, and so grown, before its
  // next use.
  if (presence.FindMountPoint().empty() && presence.recorded()->use == DeviceUse::kDeferred) {
    return response;
  }
  const platform::FileSystem* fs = platform::FindFileSystem(volume.fs_type);
  if (fs == nullptr) {
    return Error(StatusCode::kFailedPrecondition, "{} is not supported here", volume.fs_type);
  }
  RETURN_IF_ERROR(base::FaultPoint<"csidriver.expand.grow.before">());
  base::Status grown =
      fs->Resize(exec_, device.path, platform::MountPoint(presence.FindMountPoint()));
  if (grown.code() == StatusCode::kPermissionDenied) {
    // This is CSI's code for "cannot be expanded while in use". The next staging grows it.
    grown = Error(StatusCode::kFailedPrecondition, "{}", base::Message(grown));
  }
  RETURN_IF_ERROR_WITH(grown, fmt::format("expand volume {}", base::Quote(volume.id)));
  RETURN_IF_ERROR(base::FaultPoint<"csidriver.expand.grow.after">());
  // The record is read again, because Map may have changed it.
  ASSIGN_OR_RETURN(volume, pool_.Get(block::Kind::kVolume, volume.id));
  volume.grow_file_system = false;
  RETURN_IF_ERROR(pool_.UpdateRecord(volume));
  return response;
}

base::StatusOr<csi::v1::NodeGetCapabilitiesResponse> Node::NodeGetCapabilities(
    const csi::v1::NodeGetCapabilitiesRequest& request) {
  using Rpc = csi::v1::NodeServiceCapability::RPC;
  csi::v1::NodeGetCapabilitiesResponse response;
  for (const auto type : {Rpc::STAGE_UNSTAGE_VOLUME, Rpc::GET_VOLUME_STATS, Rpc::EXPAND_VOLUME,
                          Rpc::VOLUME_CONDITION, Rpc::SINGLE_NODE_MULTI_WRITER}) {
    response.add_capabilities()->mutable_rpc()->set_type(type);
  }
  if (request.runtime_supports_mount()) {
    response.add_capabilities()->mutable_rpc()->set_type(Rpc::RUNTIME_ASSISTED_MOUNT);
  }
  return response;
}

base::StatusOr<csi::v1::NodeGetInfoResponse> Node::NodeGetInfo(
    const csi::v1::NodeGetInfoRequest& request) {
  csi::v1::NodeGetInfoResponse response;
  response.set_node_id(offer_.node_id);
  (*response.mutable_accessible_topology()->mutable_segments())[offer_.topology_key] =
      offer_.node_id;
  return response;
}

}  // namespace berth::csidriver
