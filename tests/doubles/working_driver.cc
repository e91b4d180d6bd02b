#include "working_driver.h"

#include <spawn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "base/base64.h"
#include "base/log.h"
#include "platform/files/durable_file.h"

namespace berth::doubles {
namespace {

using base::Error;
using base::OkStatus;
using base::Status;
using base::StatusCode;
using AccessMode = csi::v1::VolumeCapability::AccessMode;

// The calls that change the driver's state.
#define BERTH_CHANGING_RPCS(X) \
  X(CreateVolume)              \
  X(DeleteVolume)              \
  X(ControllerPublishVolume)   \
  X(ControllerUnpublishVolume) \
  X(CreateSnapshot)            \
  X(DeleteSnapshot)            \
  X(ControllerExpandVolume)    \
  X(ControllerModifyVolume)    \
  X(NodeStageVolume)           \
  X(NodeUnstageVolume)         \
  X(NodePublishVolume)         \
  X(NodeUnpublishVolume)       \
  X(NodeExpandVolume)

Status Invalid(std::string_view what) { return Error(StatusCode::kInvalidArgument, "{}", what); }

Status CheckCapability(const csi::v1::VolumeCapability& capability) {
  if (capability.has_block()) return Invalid("this driver has no block volumes");
  if (!capability.has_mount()) return Invalid("volume_capability has no access_type");
  if (capability.access_mode().mode() == AccessMode::UNKNOWN) {
    return Invalid("volume_capability has no access_mode");
  }
  return OkStatus();
}

template <typename Capabilities>
Status CheckCapabilities(const Capabilities& capabilities) {
  if (capabilities.empty()) return Invalid("volume_capabilities is missing");
  for (const auto& capability : capabilities) RETURN_IF_ERROR(CheckCapability(capability));
  return OkStatus();
}

bool OnOneNode(const csi::v1::VolumeCapability& capability) {
  return AccessMode::Mode_Name(capability.access_mode().mode()).starts_with("SINGLE_NODE");
}

}  // namespace

WorkingDriver::WorkingDriver(rpc::FakeCsiState::Options options, std::set<std::string> nodes,
                             std::string folder)
    : nodes_(std::move(nodes)), folder_(std::move(folder)), state_(std::move(options)) {
  std::filesystem::create_directories(folder_ + "/volumes");
  std::filesystem::create_directories(folder_ + "/snapshots");
  std::filesystem::create_directories(folder_ + "/attached");
  Replay();
}

void WorkingDriver::Replay() {
  base::MutexLock lock(mutex_);
  const std::string path = folder_ + "/journal";
  std::ifstream lines(path);
  std::string type, body;
  while (lines >> type >> body) {
#define BERTH_REPLAY(rpc)                                                           \
  if (type == #rpc "Request") {                                                     \
    csi::v1::rpc##Request request;                                                  \
    csi::v1::rpc##Response ignored;                                                 \
    request.ParseFromString(base::DecodeBase64(body).value_or(""));                 \
    const Status status = state_.Handle(request, ignored);                          \
    if (!status.ok()) LOG_WARNING("journal: {}: {}", #rpc, base::ToString(status)); \
  }
    BERTH_CHANGING_RPCS(BERTH_REPLAY)
#undef BERTH_REPLAY
  }
  journal_.open(path, std::ios::app);
}

Status WorkingDriver::Journalled(const google::protobuf::Message& request, Status status) {
  static const std::set<std::string> kChanging = {
#define BERTH_NAME(rpc) #rpc "Request",
      BERTH_CHANGING_RPCS(BERTH_NAME)
#undef BERTH_NAME
  };
  const std::string& type = request.GetDescriptor()->name();
  if (status.ok() && kChanging.contains(type)) {
    // The request must not be empty, because Replay() reads two words from each line.
    journal_ << type << ' ' << base::EncodeBase64(request.SerializeAsString()) << std::endl;
  }
  return status;
}

base::StatusOr<rpc::FakeCsiState::Volume> WorkingDriver::Existing(const std::string& id) const {
  if (id.empty()) return Invalid("volume_id is missing");
  auto volume = state_.FindVolume(id);
  if (!volume.has_value()) return Error(StatusCode::kNotFound, "volume '{}' does not exist", id);
  return *std::move(volume);
}

base::StatusOr<bool> WorkingDriver::IsMounted(const std::string& path) {
  ASSIGN_OR_RETURN(const auto table, mounter_->List());
  return platform::FindMount(table, path) != nullptr;
}

Status WorkingDriver::Bind(const std::string& source, const std::string& target, bool read_only) {
  RETURN_IF_ERROR(platform::MakeFolders(target, 0755));
  std::vector<std::string> options = {"bind"};
  if (read_only) options.push_back("ro");
  return mounter_->Mount({.source = source, .target = target, .fs_type = "", .options = options});
}

Status WorkingDriver::MountFuse(const std::string& folder, const std::string& target) {
  RETURN_IF_ERROR(platform::MakeFolders(target, 0755));
  const std::string switches = folder_ + "/fuse";
  std::vector<std::string> words = {fuse_program_, "--folder",   folder,  "--mount-point",
                                    target,        "--switches", switches};
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_t pid = 0;
  const int error =
      posix_spawn(&pid, fuse_program_.c_str(), nullptr, nullptr, arguments.data(), environ);
  if (error != 0) return Error(StatusCode::kInternal, "start '{}': errno {}", fuse_program_, error);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (std::chrono::steady_clock::now() < deadline) {
    ASSIGN_OR_RETURN(const bool mounted, IsMounted(target));
    if (mounted) return OkStatus();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return Error(StatusCode::kInternal, "'{}' mounts nothing at '{}'", fuse_program_, target);
}

Status WorkingDriver::Copy(const std::string& from, const std::string& to) {
  std::error_code error;
  std::filesystem::create_directories(to, error);
  if (!error && !from.empty()) {
    std::filesystem::copy(from, to, std::filesystem::copy_options::recursive, error);
  }
  if (error) return Error(StatusCode::kInternal, "make '{}': {}", to, error.message());
  chmod(to.c_str(), 0777);
  return OkStatus();
}

Status WorkingDriver::Handle(const csi::v1::GetPluginCapabilitiesRequest& request,
                             csi::v1::GetPluginCapabilitiesResponse& response) {
  base::MutexLock lock(mutex_);
  response.add_capabilities()->mutable_volume_expansion()->set_type(
      csi::v1::PluginCapability::VolumeExpansion::ONLINE);
  return state_.Handle(request, response);
}

Status WorkingDriver::Handle(const csi::v1::CreateVolumeRequest& request,
                             csi::v1::CreateVolumeResponse& response) {
  base::MutexLock lock(mutex_);
  if (request.name().empty()) return Invalid("name is missing");
  RETURN_IF_ERROR(CheckCapabilities(request.volume_capabilities()));
  const auto& range = request.capacity_range();
  if (range.required_bytes() < 0 || range.limit_bytes() < 0) return Invalid("a negative capacity");
  if (range.limit_bytes() > 0 && range.limit_bytes() < range.required_bytes()) {
    return Error(StatusCode::kOutOfRange, "the limit is below what is required");
  }
  const std::string before = request.volume_content_source().SerializeAsString();
  csi::v1::Topology here;
  here.mutable_segments()->insert(state_.options().topology.begin(),
                                  state_.options().topology.end());
  const auto& requisite = request.accessibility_requirements().requisite();
  const auto is_here = [&](const csi::v1::Topology& topology) {
    return topology.SerializeAsString() == here.SerializeAsString();
  };
  if (!requisite.empty() && std::none_of(requisite.begin(), requisite.end(), is_here)) {
    return Error(StatusCode::kResourceExhausted, "volumes of this driver cannot be there");
  }
  csi::v1::CreateVolumeRequest asked = request;
  asked.clear_accessibility_requirements();
  RETURN_IF_ERROR(Journalled(asked, state_.Handle(asked, response)));
  const csi::v1::Volume& volume = response.volume();
  if (volume.content_source().SerializeAsString() != before) {
    return Error(StatusCode::kAlreadyExists, "'{}' exists, from another source", request.name());
  }
  const std::string folder = VolumeFolder(volume.volume_id());
  if (std::filesystem::exists(folder)) return OkStatus();
  const auto& source = request.volume_content_source();
  if (source.has_snapshot()) return Copy(SnapshotFolder(source.snapshot().snapshot_id()), folder);
  if (source.has_volume()) return Copy(VolumeFolder(source.volume().volume_id()), folder);
  return Copy("", folder);
}

Status WorkingDriver::Handle(const csi::v1::DeleteVolumeRequest& request,
                             csi::v1::DeleteVolumeResponse& response) {
  base::MutexLock lock(mutex_);
  RETURN_IF_ERROR(Journalled(request, state_.Handle(request, response)));
  std::error_code ignored;
  std::filesystem::remove_all(VolumeFolder(request.volume_id()), ignored);
  return OkStatus();
}

Status WorkingDriver::Handle(const csi::v1::ControllerPublishVolumeRequest& request,
                             csi::v1::ControllerPublishVolumeResponse& response) {
  base::MutexLock lock(mutex_);
  if (request.node_id().empty()) return Invalid("node_id is missing");
  ASSIGN_OR_RETURN(const auto volume, Existing(request.volume_id()));
  RETURN_IF_ERROR(CheckCapability(request.volume_capability()));
  if (!nodes_.contains(request.node_id())) {
    return Error(StatusCode::kNotFound, "node '{}' does not exist", request.node_id());
  }
  for (const auto& [node, read_only] : volume.attached) {
    if (node == request.node_id() || !OnOneNode(request.volume_capability())) continue;
    return Error(StatusCode::kFailedPrecondition, "volume '{}' is published at node '{}'",
                 request.volume_id(), node);
  }
  RETURN_IF_ERROR(Journalled(request, state_.Handle(request, response)));
  return TellAttached(request.volume_id());
}

Status WorkingDriver::Handle(const csi::v1::ControllerUnpublishVolumeRequest& request,
                             csi::v1::ControllerUnpublishVolumeResponse& response) {
  base::MutexLock lock(mutex_);
  RETURN_IF_ERROR(Journalled(request, state_.Handle(request, response)));
  return TellAttached(request.volume_id());
}

Status WorkingDriver::TellAttached(const std::string& id) {
  const std::string path = folder_ + "/attached/" + id;
  const auto volume = state_.FindVolume(id);
  if (!volume.has_value() || volume->attached.empty()) {
    std::error_code ignored;
    std::filesystem::remove(path, ignored);
    return OkStatus();
  }
  std::ofstream file(path);
  for (const auto& [node, read_only] : volume->attached) file << node << std::endl;
  if (!file) return Error(StatusCode::kInternal, "write '{}'", path);
  return OkStatus();
}

Status WorkingDriver::Handle(const csi::v1::ValidateVolumeCapabilitiesRequest& request,
                             csi::v1::ValidateVolumeCapabilitiesResponse& response) {
  base::MutexLock lock(mutex_);
  ASSIGN_OR_RETURN(const auto volume, Existing(request.volume_id()));
  if (request.volume_capabilities().empty()) return Invalid("volume_capabilities is missing");
  for (const auto& [key, value] : request.volume_context()) {
    const auto found = volume.volume.volume_context().find(key);
    if (found == volume.volume.volume_context().end() || found->second != value) {
      response.set_message("another volume_context");
      return OkStatus();
    }
  }
  if (const Status fit = CheckCapabilities(request.volume_capabilities()); !fit.ok()) {
    response.set_message(std::string(base::Message(fit)));
    return OkStatus();
  }
  return state_.Handle(request, response);
}

Status WorkingDriver::Handle(const csi::v1::ListVolumesRequest& request,
                             csi::v1::ListVolumesResponse& response) {
  base::MutexLock lock(mutex_);
  if (request.max_entries() < 0) return Invalid("max_entries is negative");
  csi::v1::ListVolumesResponse all;
  RETURN_IF_ERROR(state_.Handle(csi::v1::ListVolumesRequest(), all));
  const auto& entries = all.entries();
  // A token is the id of the last volume of the page before.
  auto begin = entries.begin();
  if (!request.starting_token().empty()) {
    begin = std::find_if(entries.begin(), entries.end(), [&](const auto& entry) {
      return entry.volume().volume_id() == request.starting_token();
    });
    if (begin == entries.end()) {
      return Error(StatusCode::kAborted, "no such token: begin anew");
    }
    ++begin;
  }
  for (; begin != entries.end(); ++begin) {
    if (request.max_entries() > 0 && response.entries_size() == request.max_entries()) {
      response.set_next_token(response.entries(response.entries_size() - 1).volume().volume_id());
      break;
    }
    *response.add_entries() = *begin;
  }
  return OkStatus();
}

Status WorkingDriver::Handle(const csi::v1::CreateSnapshotRequest& request,
                             csi::v1::CreateSnapshotResponse& response) {
  base::MutexLock lock(mutex_);
  if (request.source_volume_id().empty()) return Invalid("source_volume_id is missing");
  RETURN_IF_ERROR(Journalled(request, state_.Handle(request, response)));
  const std::string folder = SnapshotFolder(response.snapshot().snapshot_id());
  if (std::filesystem::exists(folder)) return OkStatus();
  return Copy(VolumeFolder(request.source_volume_id()), folder);
}

Status WorkingDriver::Handle(const csi::v1::DeleteSnapshotRequest& request,
                             csi::v1::DeleteSnapshotResponse& response) {
  base::MutexLock lock(mutex_);
  RETURN_IF_ERROR(Journalled(request, state_.Handle(request, response)));
  std::error_code ignored;
  std::filesystem::remove_all(SnapshotFolder(request.snapshot_id()), ignored);
  return OkStatus();
}

Status WorkingDriver::Handle(const csi::v1::NodeStageVolumeRequest& request,
                             csi::v1::NodeStageVolumeResponse& response) {
  base::MutexLock lock(mutex_);
  RETURN_IF_ERROR(Existing(request.volume_id()));
  if (request.staging_target_path().empty()) return Invalid("staging_target_path is missing");
  RETURN_IF_ERROR(CheckCapability(request.volume_capability()));
  RETURN_IF_ERROR(Journalled(request, state_.Handle(request, response)));
  if (share_.has_value()) return OkStatus();  // NodePublishVolume decides whether to mount
  ASSIGN_OR_RETURN(const bool mounted, IsMounted(request.staging_target_path()));
  if (mounted) return OkStatus();
  const std::string folder = VolumeFolder(request.volume_id());
  if (!fuse_program_.empty()) return MountFuse(folder, request.staging_target_path());
  return Bind(folder, request.staging_target_path(), false);
}

Status WorkingDriver::Handle(const csi::v1::NodeUnstageVolumeRequest& request,
                             csi::v1::NodeUnstageVolumeResponse& response) {
  base::MutexLock lock(mutex_);
  RETURN_IF_ERROR(state_.Handle(request, response));
  RETURN_IF_ERROR(Unmount(request.staging_target_path()));
  return Journalled(request, OkStatus());
}

Status WorkingDriver::Handle(const csi::v1::NodePublishVolumeRequest& request,
                             csi::v1::NodePublishVolumeResponse& response) {
  base::MutexLock lock(mutex_);
  ASSIGN_OR_RETURN(const auto volume, Existing(request.volume_id()));
  RETURN_IF_ERROR(CheckCapability(request.volume_capability()));
  if (const auto found = volume.published.find(request.target_path());
      found != volume.published.end() && (found->second.readonly() != request.readonly() ||
                                          found->second.volume_capability().SerializeAsString() !=
                                              request.volume_capability().SerializeAsString())) {
    return Error(StatusCode::kAlreadyExists, "volume '{}' is published there in another way",
                 request.volume_id());
  }
  RETURN_IF_ERROR(Journalled(request, state_.Handle(request, response)));
  const auto& offered = request.runtime_supported_filesystems();
  if (share_.has_value() && std::ranges::find(offered, share_->type()) != offered.end()) {
    *response.mutable_runtime_mount_info() = *share_;
    return OkStatus();
  }
  ASSIGN_OR_RETURN(const bool mounted, IsMounted(request.target_path()));
  if (mounted) return OkStatus();
  const std::string from =
      share_.has_value() ? VolumeFolder(request.volume_id()) : request.staging_target_path();
  return Bind(from, request.target_path(), request.readonly());
}

Status WorkingDriver::Handle(const csi::v1::NodeUnpublishVolumeRequest& request,
                             csi::v1::NodeUnpublishVolumeResponse& response) {
  base::MutexLock lock(mutex_);
  if (request.volume_id().empty()) return Invalid("volume_id is missing");
  if (request.target_path().empty()) return Invalid("target_path is missing");
  RETURN_IF_ERROR(Unmount(request.target_path()));
  return Journalled(request, state_.Handle(request, response));
}

Status WorkingDriver::CheckAt(const std::string& id, const std::string& path) const {
  ASSIGN_OR_RETURN(const auto volume, Existing(id));
  if (path.empty()) return Invalid("volume_path is missing");
  if (volume.published.contains(path) || volume.staged.contains(path)) return OkStatus();
  return Error(StatusCode::kNotFound, "volume '{}' is not at '{}'", id, path);
}

Status WorkingDriver::Handle(const csi::v1::NodeGetVolumeStatsRequest& request,
                             csi::v1::NodeGetVolumeStatsResponse& response) {
  base::MutexLock lock(mutex_);
  RETURN_IF_ERROR(CheckAt(request.volume_id(), request.volume_path()));
  if (share_.has_value() && request.runtime_supports_stats()) {
    response.set_source(share_->source());
    return OkStatus();
  }
  return state_.Handle(request, response);
}

Status WorkingDriver::Handle(const csi::v1::NodeExpandVolumeRequest& request,
                             csi::v1::NodeExpandVolumeResponse& response) {
  base::MutexLock lock(mutex_);
  RETURN_IF_ERROR(CheckAt(request.volume_id(), request.volume_path()));
  return Journalled(request, state_.Handle(request, response));
}

}  // namespace berth::doubles
