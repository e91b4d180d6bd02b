// Answers those calls of the kubelet that concern volumes for pods with a runtime handler; the
// others go to the driver as they came.
//
//   NodeStageVolume     OK without the driver, if a pod that uses the volume has a handler and the
//                       driver mounts while it stages: whether the host or a handler mounts is
//                       known when the pod is (NodePublishVolume)
//   NodePublishVolume   the handler gets the mount, which the driver left to it, or of the block
//                       device as which the driver published the volume; else the host mounts, and
//                       an event of the pod says why
//   NodeUnpublish-, NodeUnstageVolume   undo what was done
//   NodeGetVolumeStats, NodeExpandVolume   ask the handler, if it has the volume
//   NodeGetCapabilities   the driver's, and what handlers add
//
// Each step is recorded before it is taken (volume_records.h). One call at a time works on a
// volume; a second one gets ABORTED. After an error of NodePublishVolume that CSI calls final, the
// kubelet never asks to unpublish, also if an earlier call had left something; so a final error
// becomes UNAVAILABLE if the pod may have the volume in any way.
// Thread-safe; blocks, with deadlines.
#pragma once

#include <optional>
#include <string>

#include "base/key_locks.h"
#include "base/status.h"
#include "crustproxy/block_device.h"
#include "crustproxy/cluster.h"
#include "crustproxy/kubelet_request.h"
#include "crustproxy/volume_records.h"
#include "node/volumes/crust_deferral.h"
#include "platform/mounts/mounter.h"
#include "proto/csi.pb.h"
#include "rpc/csi_client.h"
#include "volume/csi/driver_clients.h"
#include "volume/paths.h"

namespace berth::crustproxy {

class Volumes {
 public:
  // All are borrowed.
  struct Parts {
    rpc::CsiClient& driver;
    Cluster& cluster;
    VolumeRecords& records;
    node::CrustDeferral& deferral;
    platform::Exec& exec;
    platform::Mounter& mounter;
    const volume::Paths& paths;
  };
  explicit Volumes(const Parts& parts)
      : parts_(parts), devices_(parts.driver, parts.exec, parts.mounter, parts.paths) {}

  base::StatusOr<csi::v1::NodeStageVolumeResponse> Stage(
      const csi::v1::NodeStageVolumeRequest& request);
  base::StatusOr<csi::v1::NodeUnstageVolumeResponse> Unstage(
      const csi::v1::NodeUnstageVolumeRequest& request);
  base::StatusOr<csi::v1::NodePublishVolumeResponse> Publish(
      const csi::v1::NodePublishVolumeRequest& request);
  base::StatusOr<csi::v1::NodeUnpublishVolumeResponse> Unpublish(
      const csi::v1::NodeUnpublishVolumeRequest& request);
  base::StatusOr<csi::v1::NodeGetVolumeStatsResponse> GetStats(
      const csi::v1::NodeGetVolumeStatsRequest& request);
  base::StatusOr<csi::v1::NodeExpandVolumeResponse> Expand(
      const csi::v1::NodeExpandVolumeRequest& request);
  base::StatusOr<csi::v1::NodeGetCapabilitiesResponse> GetCapabilities(
      const csi::v1::NodeGetCapabilitiesRequest& request);

 private:
  // A publish that is under way, for a pod that has a RuntimeClass.
  struct Publishing {
    const csi::v1::NodePublishVolumeRequest& request;
    api::PodUid pod;
    PodVolume volume;
    volume::NodeCapabilities driver;
    VolumeRecord record;
    node::HandlerChoice handler = {};
  };

  base::StatusOr<volume::NodeCapabilities> ReadDriverCapabilities();
  // Publishes the volume for the pod, whose call holds the volume.
  base::StatusOr<csi::v1::NodePublishVolumeResponse> PublishForPod(
      const csi::v1::NodePublishVolumeRequest& request, const PodTarget& target);
  // Whether the pod has the volume, or may have it, or a part of what is made for that.
  bool MayBeLeft(const csi::v1::NodePublishVolumeRequest& request);
  // Decides whether a handler mounts the volume of `job`. Whatever the failure is, an earlier call
  // may have gone further, so the failure is not final.
  base::Status DecideWhoMounts(Publishing& job);
  // As CrustDeferral::ReportChoice.
  base::Status ReportChoice(const Publishing& job, const volume::DeferredMount* mount);
  // FAILED_PRECONDITION: the host has the volume mounted for another pod.
  base::Status CheckHostHasItNot(const Publishing& job);
  // Stages the volume, which was deferred, as the kubelet asked.
  base::Status StageForHost(VolumeRecord& record);
  // Publishes the volume on the host, as the kubelet asked. Stages it before, if that was deferred.
  base::StatusOr<csi::v1::NodePublishVolumeResponse> PublishOnHost(
      const csi::v1::NodePublishVolumeRequest& request, VolumeRecord record);
  base::StatusOr<csi::v1::NodePublishVolumeResponse> PublishInSandbox(Publishing& job);
  // Has the driver publish the volume for the handler. nullopt: it cannot, or its file system is
  // none that the handler mounts; then the host has to mount it.
  base::StatusOr<std::optional<volume::DeferredMount>> AskDriver(const Publishing& job);
  base::StatusOr<std::optional<volume::DeferredMount>> AskForDevice(const Publishing& job);
  // Takes back what was done for the recorded pod with that target, and forgets the pod. The volume
  // is as it was staged for the kubelet.
  base::Status UndoPublish(VolumeRecord& record, const std::string& target);
  base::Status ReleaseAtDriver(const VolumeRecord& record, const PodUse& use);

  const Parts parts_;
  BlockDevices devices_;
  base::KeyLocks locks_{"volume"};
};

}  // namespace berth::crustproxy
