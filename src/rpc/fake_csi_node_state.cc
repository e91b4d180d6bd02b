// The Node service's part of the CSI driver double.
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "rpc/fake_csi_state.h"

namespace berth::rpc {
namespace {

using base::Error;
using base::OkStatus;
using base::Status;
using base::StatusCode;

Status MakeTarget(const std::string& path, bool block) {
  int result = 0;
  if (block) {
    result = open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    if (result >= 0) close(result);
  } else {
    result = mkdir(path.c_str(), 0755);
    if (result != 0 && errno == EEXIST) result = 0;
  }
  if (result >= 0) return OkStatus();
  const int error = errno;
  return Error(StatusCode::kInternal, "make target '{}': {}", path, strerror(error));
}

}  // namespace

std::set<std::string> FakeCsiState::StagingPaths() const {
  base::MutexLock lock(mutex_);
  std::set<std::string> paths;
  for (const auto& [id, volume] : volumes_) {
    for (const auto& [path, capability] : volume.staged) paths.insert(path);
  }
  return paths;
}

std::set<std::string> FakeCsiState::TargetPaths() const {
  base::MutexLock lock(mutex_);
  std::set<std::string> paths;
  for (const auto& [id, volume] : volumes_) {
    for (const auto& [path, request] : volume.published) paths.insert(path);
  }
  return paths;
}

Status FakeCsiState::Handle(const csi::v1::NodeGetCapabilitiesRequest&,
                            csi::v1::NodeGetCapabilitiesResponse& response) {
  for (const auto type : options_.node_capabilities) {
    response.add_capabilities()->mutable_rpc()->set_type(type);
  }
  return OkStatus();
}

Status FakeCsiState::Handle(const csi::v1::NodeGetInfoRequest&,
                            csi::v1::NodeGetInfoResponse& response) {
  response.set_node_id(options_.node_id);
  response.set_max_volumes_per_node(options_.max_volumes_per_node);
  if (!options_.topology.empty()) {
    response.mutable_accessible_topology()->mutable_segments()->insert(options_.topology.begin(),
                                                                       options_.topology.end());
  }
  return OkStatus();
}

Status FakeCsiState::Handle(const csi::v1::NodeStageVolumeRequest& request,
                            csi::v1::NodeStageVolumeResponse&) {
  RETURN_IF_ERROR(RequireField(request.volume_id(), "volume_id"));
  RETURN_IF_ERROR(RequireField(request.staging_target_path(), "staging_target_path"));
  if (!request.has_volume_capability()) return RequireField("", "volume_capability");
  struct stat info;
  if (stat(request.staging_target_path().c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) {
    return Error(StatusCode::kInvalidArgument, "staging path '{}' is not a folder",
                 request.staging_target_path());
  }
  base::MutexLock lock(mutex_);
  Volume& volume = FindOrMake(request.volume_id());
  const std::string capability = request.volume_capability().SerializeAsString();
  const auto [it, added] = volume.staged.emplace(request.staging_target_path(), capability);
  if (!added && it->second != capability) {
    return Error(StatusCode::kAlreadyExists, "volume '{}' is staged with another capability",
                 request.volume_id());
  }
  return OkStatus();
}

Status FakeCsiState::Handle(const csi::v1::NodeUnstageVolumeRequest& request,
                            csi::v1::NodeUnstageVolumeResponse&) {
  RETURN_IF_ERROR(RequireField(request.volume_id(), "volume_id"));
  RETURN_IF_ERROR(RequireField(request.staging_target_path(), "staging_target_path"));
  base::MutexLock lock(mutex_);
  const auto it = volumes_.find(request.volume_id());
  if (it == volumes_.end()) return OkStatus();
  if (!it->second.published.empty()) {
    return Error(StatusCode::kFailedPrecondition, "volume '{}' is still published",
                 request.volume_id());
  }
  it->second.staged.erase(request.staging_target_path());
  return OkStatus();
}

Status FakeCsiState::Handle(const csi::v1::NodePublishVolumeRequest& request,
                            csi::v1::NodePublishVolumeResponse& response) {
  RETURN_IF_ERROR(RequireField(request.volume_id(), "volume_id"));
  RETURN_IF_ERROR(RequireField(request.target_path(), "target_path"));
  if (!request.has_volume_capability()) return RequireField("", "volume_capability");
  const bool ephemeral = request.volume_context().count("csi.storage.k8s.io/ephemeral") > 0 &&
                         request.volume_context().at("csi.storage.k8s.io/ephemeral") == "true";
  base::MutexLock lock(mutex_);
  Volume& volume = FindOrMake(request.volume_id());
  if (options_.node_capabilities.contains(NodeRpc::STAGE_UNSTAGE_VOLUME) && !ephemeral &&
      !volume.staged.contains(request.staging_target_path())) {
    return Error(StatusCode::kFailedPrecondition, "volume '{}' is not staged at '{}'",
                 request.volume_id(), request.staging_target_path());
  }
  RETURN_IF_ERROR(MakeTarget(request.target_path(), request.volume_capability().has_block()));
  volume.published[request.target_path()] = request;
  const auto& handler_mounts = request.runtime_supported_filesystems();
  if (options_.deferred.has_value() &&
      std::ranges::find(handler_mounts, options_.deferred->type()) != handler_mounts.end()) {
    *response.mutable_runtime_mount_info() = *options_.deferred;
  }
  return OkStatus();
}

Status FakeCsiState::Handle(const csi::v1::NodeUnpublishVolumeRequest& request,
                            csi::v1::NodeUnpublishVolumeResponse&) {
  RETURN_IF_ERROR(RequireField(request.volume_id(), "volume_id"));
  RETURN_IF_ERROR(RequireField(request.target_path(), "target_path"));
  base::MutexLock lock(mutex_);
  if (rmdir(request.target_path().c_str()) != 0 && errno == ENOTDIR) {
    unlink(request.target_path().c_str());
  }
  const auto it = volumes_.find(request.volume_id());
  if (it != volumes_.end()) it->second.published.erase(request.target_path());
  return OkStatus();
}

Status FakeCsiState::Handle(const csi::v1::NodeGetVolumeStatsRequest& request,
                            csi::v1::NodeGetVolumeStatsResponse& response) {
  base::MutexLock lock(mutex_);
  ASSIGN_OR_RETURN(const Volume* volume, FindExisting(request.volume_id()));
  if (!volume->published.contains(request.volume_path()) &&
      !volume->staged.contains(request.volume_path())) {
    return Error(StatusCode::kNotFound, "volume '{}' is not at '{}'", request.volume_id(),
                 request.volume_path());
  }
  auto* bytes = response.add_usage();
  bytes->set_unit(csi::v1::VolumeUsage::BYTES);
  bytes->set_total(1000);
  bytes->set_used(400);
  bytes->set_available(600);
  auto* inodes = response.add_usage();
  inodes->set_unit(csi::v1::VolumeUsage::INODES);
  inodes->set_total(100);
  inodes->set_used(10);
  inodes->set_available(90);
  if (options_.deferred.has_value() && request.runtime_supports_stats()) {
    response.set_source(options_.deferred->source());
  }
  response.mutable_volume_condition()->set_abnormal(!options_.abnormal.empty());
  response.mutable_volume_condition()->set_message(options_.abnormal);
  return OkStatus();
}

Status FakeCsiState::Handle(const csi::v1::NodeExpandVolumeRequest& request,
                            csi::v1::NodeExpandVolumeResponse& response) {
  base::MutexLock lock(mutex_);
  ASSIGN_OR_RETURN(Volume * volume, FindExisting(request.volume_id()));
  const int64_t wanted = request.capacity_range().required_bytes();
  volume->volume.set_capacity_bytes(std::max(volume->volume.capacity_bytes(), wanted));
  response.set_capacity_bytes(volume->volume.capacity_bytes());
  // The source is set even for a handler that cannot grow a file system, as a faulty driver may do.
  if (options_.deferred.has_value()) response.set_source(options_.deferred->source());
  return OkStatus();
}

}  // namespace berth::rpc
