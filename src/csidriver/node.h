// Implements the CSI node service: maps and mounts volumes of the pool, and bind-mounts them at the
// target paths of pods.
//
//               stage                     publish
//   (none) ───────────────▶ [prepared] ─────────────▶ [mounted at staging, bound to each target]
//      ▲                     │ │  ▲  ▲                                    │
//      └────── unstage ──────┘ │  │  └─── unpublish of the last target ───┘
//                              │  │
//                      publish │  │ unpublish
//                              ▼  │
//                           [deferred: a container runtime mounts it for the target]
//
// Prepared means: mapped to a loop device, and the file system on it is made or checked.
//
// Either this host's kernel or a sandbox's kernel has the file system mounted, and never both
// (node_defer.cc). After a deferral, the volume is mapped and prepared again before its next use;
// this fails while any process has its device open. NodeUnstageVolume does not prepare it again.
//
// Every step is recorded (node_records.h) before it is taken, and every "already done" is checked
// against the mount table and the loop device of the volume's very image. A volume that an earlier
// version staged is mounted at staging from the start. Raw block volumes are only mapped when
// staged; publishing binds the device's node to the target file.
//
// An inline volume, which belongs to one pod, is made when it is published, mounted at the target
// itself, and deleted when it is unpublished:
//
//   (none) ── publish ──▶ in the pool, mounted at the target ── unpublish ──▶ (none)
//
// Each method checks its own request. Thread-safe. Only one call at a time works on a volume; a
// second one gets ABORTED. Calls block; mkfs, fsck and mount have their own deadlines.
#pragma once

#include "base/status.h"
#include "block/pools/pool.h"
#include "csidriver/node_records.h"
#include "csidriver/presence.h"
#include "csidriver/validate.h"
#include "platform/mounts/mount_paths.h"
#include "platform/mounts/mounter.h"
#include "platform/processes/exec.h"
#include "proto/csi.pb.h"

namespace berth::csidriver {

// How long an unmap waits for other users of the device to close it.
inline constexpr std::chrono::seconds kUnmapPatience{5};

class Node {
 public:
  // All arguments are borrowed and must outlive the node and the pool's calls. Sets the pool's
  // deferred check, so a pool may have only one Node.
  Node(block::Pool& pool, NodeRecords& records, platform::Mounter& mounter, platform::Exec& exec,
       const Offer& offer)
      : pool_(pool), records_(records), mounter_(mounter), exec_(exec), offer_(offer) {
    // Every volume that has a device has a record, unless the record is lost or was damaged.
    pool_.SetDeferredCheck([&records](const std::string& volume_id) {
      const auto record = records.Get(volume_id);
      if (!record.has_value()) return block::Deferral::kUnknown;
      return record->use == DeviceUse::kDeferred ? block::Deferral::kYes : block::Deferral::kNo;
    });
  }

  // node_stage.cc
  base::StatusOr<csi::v1::NodeStageVolumeResponse> NodeStageVolume(
      const csi::v1::NodeStageVolumeRequest& request);
  base::StatusOr<csi::v1::NodeUnstageVolumeResponse> NodeUnstageVolume(
      const csi::v1::NodeUnstageVolumeRequest& request);
  // node_publish.cc. The first target's publish decides the mount flags.
  base::StatusOr<csi::v1::NodePublishVolumeResponse> NodePublishVolume(
      const csi::v1::NodePublishVolumeRequest& request);
  base::StatusOr<csi::v1::NodeUnpublishVolumeResponse> NodeUnpublishVolume(
      const csi::v1::NodeUnpublishVolumeRequest& request);
  // node_inline.cc: called at the start, and again until it returns true. Deletes inline volumes
  // whose pod's folder is gone, because the kubelet will not unpublish them any more. False: the
  // kubelet's folder is not the one that a volume was published in, so that it may not be mounted
  // yet.
  bool RemoveOrphans();
  // node_info.cc
  base::StatusOr<csi::v1::NodeGetVolumeStatsResponse> NodeGetVolumeStats(
      const csi::v1::NodeGetVolumeStatsRequest& request);
  base::StatusOr<csi::v1::NodeExpandVolumeResponse> NodeExpandVolume(
      const csi::v1::NodeExpandVolumeRequest& request);
  base::StatusOr<csi::v1::NodeGetCapabilitiesResponse> NodeGetCapabilities(
      const csi::v1::NodeGetCapabilitiesRequest& request);
  base::StatusOr<csi::v1::NodeGetInfoResponse> NodeGetInfo(
      const csi::v1::NodeGetInfoRequest& request);

 private:
  base::StatusOr<Presence> FindPresence(const std::string& volume_id) const {
    return Presence::Find(pool_, mounter_, volume_id, records_.Get(volume_id));
  }
  // Whether staging is complete, by the node's record and the pool's, so that a publish may go on.
  static bool IsStaged(const block::Record& volume, const Presence& presence);
  base::Status PrepareStaged(const block::Record& volume, const Presence& presence,
                             NodeRecord record);
  // The caller makes sure that the volume is not mounted, neither here nor by a container runtime.
  base::StatusOr<platform::LoopDevice> MapAndPrepare(const block::Record& volume);
  base::Status MountFileSystem(const block::Record& volume, const platform::LoopDevice& device,
                               const std::vector<std::string>& flags, const std::string& path);
  // Removes the device. FAILED_PRECONDITION: something still has it open after kUnmapPatience.
  // `use` is for the message.
  base::Status DetachVolume(const std::string& volume_id, DeviceUse use);
  base::Status UndoStage(const std::string& volume_id);
  base::StatusOr<csi::v1::NodePublishVolumeResponse> PublishAt(const block::Record& volume,
                                                               const Capability& capability,
                                                               const PublishedTarget& wanted,
                                                               const Presence& presence);
  base::StatusOr<csi::v1::NodePublishVolumeResponse> BindTarget(const block::Record& volume,
                                                                const Capability& capability,
                                                                const PublishedTarget& target,
                                                                const platform::LoopDevice& device,
                                                                const Presence& presence);
  base::Status UnmountUnpublished(const std::string& volume_id);
  // node_defer.cc
  // Gives the device for a further target. Prepares it again if the other kind of user had it.
  base::StatusOr<platform::LoopDevice> GetDeviceFor(const block::Record& volume,
                                                    const PublishedTarget& wanted,
                                                    const NodeRecord& record,
                                                    const Presence& presence);
  base::StatusOr<platform::LoopDevice> PrepareAgain(const block::Record& volume, DeviceUse use);
  // Makes the target's folder and the response that leaves the mount to the container runtime.
  // Idempotent.
  base::StatusOr<csi::v1::NodePublishVolumeResponse> DeferTarget(
      const block::Record& volume, const Capability& capability, const PublishedTarget& target,
      const platform::LoopDevice& device);
  base::Status ConfirmPublished(const block::Record& volume, AccessMode::Mode mode,
                                const PublishedTarget& wanted, const Presence& presence);
  base::Status UndoPublish(NodeRecord record, const platform::TargetPath& target);
  base::StatusOr<csi::v1::NodePublishVolumeResponse> PublishInline(
      const csi::v1::NodePublishVolumeRequest& request);
  base::StatusOr<csi::v1::NodeUnpublishVolumeResponse> UnpublishInline(
      const csi::v1::NodeUnpublishVolumeRequest& request);
  base::Status CheckNothingAt(const platform::TargetPath& target) const;
  base::Status MountInline(const block::Record& volume, const Capability& capability,
                           bool read_only);
  base::Status RemoveInline(const block::Record& volume);
  // The two steps of RemoveInline. The caller has locked the volume for the first one alone.
  base::Status UnmountInline(const block::Record& volume);
  base::Status DeleteInline(const block::Record& volume);
  // Finds the pool's id of a volume. A request has that id, or the kubelet's handle of an inline
  // volume.
  base::StatusOr<std::string> FindPoolId(const std::string& volume_id) const;
  // Unmounts the volume from a staging or target path, even if it is mounted there several times.
  template <typename Path>
  base::Status UnmountAll(const std::string& volume_id, const Path& path);

  block::Pool& pool_;
  NodeRecords& records_;
  platform::Mounter& mounter_;
  platform::Exec& exec_;
  const Offer& offer_;
};

// Makes the target path: a folder, or a file for raw block. OK if it exists. FAILED_PRECONDITION:
// something else exists there. By the CSI specification, the CO makes the parent folder.
base::Status MakeTarget(const platform::TargetPath& target, block::AccessType access);
// Removes an empty folder or file; OK if it is missing. FAILED_PRECONDITION: something else is
// there, which this driver did not make.
base::Status RemoveTarget(const platform::TargetPath& target);

// FAILED_PRECONDITION, naming it, if something else than the volume is mounted at its staging path.
base::Status CheckStagingPath(const Presence& presence, const block::Record& volume,
                              const platform::StagingPath& path);
// FAILED_PRECONDITION: `path` is not an existing folder. The caller makes sure that nothing is
// mounted there, because a mount might hang.
base::Status CheckStagingFolder(const platform::StagingPath& path);

// Whether the container runtime, whose file systems `request` lists, mounts the volume's file
// system in place of this host.
bool CanDefer(const csi::v1::NodePublishVolumeRequest& request, const block::Record& volume);
// FAILED_PRECONDITION, naming the target, if the kernel of `wanted` and that of one of `others`
// would both have the file system mounted. Only deferred targets that are all read-only may do
// that.
base::Status CheckOneKernel(const block::Record& volume, const PublishedTarget& wanted,
                            const std::vector<PublishedTarget>& others);

// Whether the volume may be used with `capability`: FAILED_PRECONDITION if it is of another access
// type or holds another file system.
base::Status CheckUse(const block::Record& volume, const Capability& capability);

}  // namespace berth::csidriver
