// The state of the CSI driver double: volumes, snapshots and groups of them, and CSI's rules.
// Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "proto/csi.pb.h"

namespace berth::rpc {

// INVALID_ARGUMENT if the required field is empty.
inline base::Status RequireField(const std::string& value, std::string_view field) {
  if (!value.empty()) return base::OkStatus();
  return base::Error(base::StatusCode::kInvalidArgument, "{} is missing", field);
}

class FakeCsiState {
 public:
  using PluginService = csi::v1::PluginCapability::Service;
  using ControllerRpc = csi::v1::ControllerServiceCapability::RPC;
  using NodeRpc = csi::v1::NodeServiceCapability::RPC;

  struct Options {
    std::string name = "fake.csi.example.com";
    std::string node_id = "node-a";
    std::map<std::string, std::string>
        topology;  // of the node, and of volumes made without another
    int64_t max_volumes_per_node = 0;
    std::map<std::string, std::string> manifest;  // of GetPluginInfo
    int snapshot_uploads = 0;  // how many answers say that a snapshot is not ready yet
    // Changes each answer of CreateSnapshot, as a faulty driver would.
    std::function<void(csi::v1::CreateSnapshotResponse&)> on_snapshot;
    // The same for ListSnapshots.
    std::function<void(csi::v1::ListSnapshotsResponse&)> on_snapshot_list;
    // The same for CreateVolumeGroupSnapshot.
    std::function<void(csi::v1::CreateVolumeGroupSnapshotResponse&)> on_group;
    // The same for ControllerExpandVolume.
    std::function<void(csi::v1::ControllerExpandVolumeResponse&)> on_expand;
    // Of which of the asked volumes a group snapshot has snapshots; all if it is not set.
    std::function<std::vector<std::string>(std::vector<std::string>)> cut_volumes;
    bool endless_pages = false;                 // each page of a list names another one
    int64_t capacity_bytes = int64_t{1} << 40;  // of all volumes together
    std::set<PluginService::Type> plugin_capabilities = {
        PluginService::CONTROLLER_SERVICE, PluginService::VOLUME_ACCESSIBILITY_CONSTRAINTS};
    std::set<ControllerRpc::Type> controller_capabilities = {
        ControllerRpc::CREATE_DELETE_VOLUME,   ControllerRpc::PUBLISH_UNPUBLISH_VOLUME,
        ControllerRpc::CREATE_DELETE_SNAPSHOT, ControllerRpc::LIST_VOLUMES,
        ControllerRpc::LIST_SNAPSHOTS,         ControllerRpc::CLONE_VOLUME,
        ControllerRpc::GET_CAPACITY,           ControllerRpc::EXPAND_VOLUME};
    std::set<NodeRpc::Type> node_capabilities = {NodeRpc::STAGE_UNSTAGE_VOLUME,
                                                 NodeRpc::GET_VOLUME_STATS, NodeRpc::EXPAND_VOLUME};
    std::string abnormal = "";  // the message of an abnormal volume_condition; empty: normal
    // The mount that NodePublishVolume leaves to a runtime handler that supports its type.
    std::optional<csi::v1::FileSystemMountInfo> deferred;
  };

  struct Volume {
    csi::v1::Volume volume;
    std::string name;                           // of CreateVolume; empty if made by a node call
    std::map<std::string, bool> attached;       // node id → readonly
    std::map<std::string, std::string> staged;  // staging path → serialised capability
    std::map<std::string, csi::v1::NodePublishVolumeRequest> published;  // by target path
  };

  explicit FakeCsiState(Options options) : options_(std::move(options)) {}

  // Capabilities may be changed before calls come in.
  Options& options() { return options_; }
  const Options& options() const { return options_; }

  std::optional<Volume> FindVolume(const std::string& id) const;
  std::vector<std::string> VolumeIds() const;
  std::vector<std::string> SnapshotIds() const;
  std::vector<std::string> GroupIds() const;
  std::set<std::string> StagingPaths() const;
  std::set<std::string> TargetPaths() const;

#define BERTH_HANDLE(rpc) \
  base::Status Handle(const csi::v1::rpc##Request& request, csi::v1::rpc##Response& response)
  BERTH_HANDLE(GetPluginInfo);
  BERTH_HANDLE(GetPluginCapabilities);
  BERTH_HANDLE(Probe);
  BERTH_HANDLE(CreateVolume);
  BERTH_HANDLE(DeleteVolume);
  BERTH_HANDLE(ControllerPublishVolume);
  BERTH_HANDLE(ControllerUnpublishVolume);
  BERTH_HANDLE(ValidateVolumeCapabilities);
  BERTH_HANDLE(ListVolumes);
  BERTH_HANDLE(GetCapacity);
  BERTH_HANDLE(ControllerGetCapabilities);
  BERTH_HANDLE(CreateSnapshot);
  BERTH_HANDLE(DeleteSnapshot);
  BERTH_HANDLE(ListSnapshots);
  BERTH_HANDLE(GetSnapshot);
  BERTH_HANDLE(ControllerExpandVolume);
  BERTH_HANDLE(ControllerGetVolume);
  BERTH_HANDLE(ControllerModifyVolume);
  BERTH_HANDLE(GroupControllerGetCapabilities);
  BERTH_HANDLE(CreateVolumeGroupSnapshot);
  BERTH_HANDLE(DeleteVolumeGroupSnapshot);
  BERTH_HANDLE(GetVolumeGroupSnapshot);
  BERTH_HANDLE(NodeStageVolume);
  BERTH_HANDLE(NodeUnstageVolume);
  BERTH_HANDLE(NodePublishVolume);
  BERTH_HANDLE(NodeUnpublishVolume);
  BERTH_HANDLE(NodeGetVolumeStats);
  BERTH_HANDLE(NodeExpandVolume);
  BERTH_HANDLE(NodeGetCapabilities);
  BERTH_HANDLE(NodeGetInfo);
#undef BERTH_HANDLE

 private:
  base::StatusOr<Volume*> FindExisting(const std::string& id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Volume& FindOrMake(const std::string& id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The snapshot as the driver describes it now.
  csi::v1::Snapshot DescribeSnapshot(const std::string& id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // A new snapshot of the volume; NOT_FOUND: there is no such volume.
  base::StatusOr<csi::v1::Snapshot> CutSnapshot(const std::string& volume_id)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The group with its snapshots as the driver describes it now.
  csi::v1::VolumeGroupSnapshot DescribeGroup(const std::string& id)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  int64_t UsedBytes() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The token of the next page of a list; empty: this page is the last one.
  std::string NextToken() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Options options_;
  mutable base::Mutex mutex_;
  std::map<std::string, Volume> volumes_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, csi::v1::Snapshot> snapshots_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::string> snapshot_names_ ABSL_GUARDED_BY(mutex_);  // name → id
  std::map<std::string, int> uploads_ ABSL_GUARDED_BY(mutex_);  // id → answers till it is ready
  struct Group {
    std::string name;
    std::vector<std::string> snapshots;  // ids
  };
  std::map<std::string, Group> groups_ ABSL_GUARDED_BY(mutex_);  // by id
  int next_id_ ABSL_GUARDED_BY(mutex_) = 1;
};

}  // namespace berth::rpc
