// The node service's work: volumes of the pool mapped, mounted and bound to where pods find them.
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
// The kernel that has the file system mounted is this host's or a sandbox's, never both
// (node_defer.cc). Between a deferral and whatever comes next but NodeUnstageVolume the volume is
// mapped and prepared anew, which fails while anybody has its device.
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
// Requests come in unchecked; each method checks its own. Thread-safe; one call per volume at a
// time, the second gets ABORTED. Blocking: mkfs, fsck and mount run with deadlines of their own.
#pragma once

#include "base/status.h"
#include "block/pools/pool.h"
#include "csidriver/node_records.h"
#include "csidriver/presence.h"
#include "csidriver/validate.h"
#include "platform/mounts/mounter.h"
#include "platform/processes/exec.h"
#include "proto/csi.pb.h"

namespace berth::csidriver {

// How long an unmapping waits for whoever has the device open.
inline constexpr std::chrono::seconds kUnmapPatience{5};

class Node {
 public:
  // All are borrowed. Tells the pool, once for its life, which volumes are deferred.
  Node(block::Pool& pool, NodeRecords& records, platform::Mounter& mounter, platform::Exec& exec,
       const Offer& offer)
      : pool_(pool), records_(records), mounter_(mounter), exec_(exec), offer_(offer) {
    pool_.AskWhetherDeferred([&records](const std::string& volume_id) {
      const auto record = records.Get(volume_id);
      return record.has_value() && record->use == DeviceUse::kDeferred;
    });
  }

  // node_stage.cc
  base::StatusOr<csi::v1::NodeStageVolumeResponse> NodeStageVolume(
      const csi::v1::NodeStageVolumeRequest& request);
  base::StatusOr<csi::v1::NodeUnstageVolumeResponse> NodeUnstageVolume(
      const csi::v1::NodeUnstageVolumeRequest& request);
  // node_publish.cc. The mount flags that count are those of the first target's publish.
  base::StatusOr<csi::v1::NodePublishVolumeResponse> NodePublishVolume(
      const csi::v1::NodePublishVolumeRequest& request);
  base::StatusOr<csi::v1::NodeUnpublishVolumeResponse> NodeUnpublishVolume(
      const csi::v1::NodeUnpublishVolumeRequest& request);
  // node_inline.cc: inline volumes whose pod's folder is gone are deleted, since nobody is left who
  // would unpublish them. At the start.
  void RemoveOrphans();
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
  base::StatusOr<Presence> Look(const std::string& volume_id) const {
    return Presence::Look(pool_, mounter_, volume_id, records_.Get(volume_id));
  }
  // Staged to its end, as the record and the pool's have it: whoever publishes may go on.
  static bool IsStaged(const block::Record& volume, const Presence& presence);
  base::Status PrepareStaged(const block::Record& volume, const Presence& presence,
                             NodeRecord record);
  // Nothing that is mounted may be prepared, here or by a container runtime.
  base::StatusOr<platform::LoopDevice> MapAndPrepare(const block::Record& volume);
  base::Status MountFileSystem(const block::Record& volume, const platform::LoopDevice& device,
                               const std::vector<std::string>& flags, const std::string& path);
  // Removes the device. FAILED_PRECONDITION while anybody has it open, which the kernel sees to.
  base::Status Detach(const std::string& volume_id, DeviceUse use);
  base::Status UndoStage(const std::string& volume_id);
  base::StatusOr<csi::v1::NodePublishVolumeResponse> PublishAt(const block::Record& volume,
                                                               const Capability& capability,
                                                               const PublishedTarget& wanted,
                                                               const Presence& presence);
  base::StatusOr<csi::v1::NodePublishVolumeResponse> Bind(const block::Record& volume,
                                                          const Capability& capability,
                                                          const PublishedTarget& target,
                                                          const platform::LoopDevice& device,
                                                          const Presence& presence);
  base::Status UnmountUnpublished(const std::string& volume_id);
  // node_defer.cc
  base::StatusOr<platform::LoopDevice> DeviceFor(const block::Record& volume,
                                                 const PublishedTarget& wanted,
                                                 const NodeRecord& record,
                                                 const Presence& presence);
  base::StatusOr<platform::LoopDevice> PrepareAnew(const block::Record& volume, DeviceUse use);
  // The answer; what it does may be done once more.
  base::StatusOr<csi::v1::NodePublishVolumeResponse> Defer(const block::Record& volume,
                                                           const Capability& capability,
                                                           const PublishedTarget& target,
                                                           const platform::LoopDevice& device);
  base::Status ConfirmPublished(const block::Record& volume, AccessMode::Mode mode,
                                const PublishedTarget& wanted, const Presence& presence);
  base::Status UndoPublish(NodeRecord record, const std::string& path);
  base::StatusOr<csi::v1::NodePublishVolumeResponse> PublishInline(
      const csi::v1::NodePublishVolumeRequest& request);
  base::StatusOr<csi::v1::NodeUnpublishVolumeResponse> UnpublishInline(
      const csi::v1::NodeUnpublishVolumeRequest& request);
  base::Status CheckNothingAt(const std::string& target) const;
  base::Status MountInline(const block::Record& volume, const Capability& capability,
                           bool read_only);
  base::Status RemoveInline(const block::Record& volume);
  // The pool's id of a volume, which a CO knows by that, or an inline one by its own handle.
  base::StatusOr<std::string> PoolId(const std::string& volume_id) const;
  base::Status UnmountAll(const std::string& volume_id, const std::string& path);

  block::Pool& pool_;
  NodeRecords& records_;
  platform::Mounter& mounter_;
  platform::Exec& exec_;
  const Offer& offer_;
};

// Makes what the volume is bound to: a folder, or for raw block a file. Its parent is the CO's to
// make.
base::Status MakeTarget(const std::string& path, block::AccessType access);
// Removes an empty folder or file; whatever else is there was not made here: FAILED_PRECONDITION.
base::Status RemoveTarget(const std::string& path);

// FAILED_PRECONDITION, naming it, if something else than the volume is mounted at its staging path.
base::Status CheckStagingPath(const Presence& presence, const block::Record& volume,
                              const std::string& path);
// FAILED_PRECONDITION if it is no folder. Nothing may be mounted there, which might hang.
base::Status CheckStagingFolder(const std::string& path);

// Whether the mount of the volume's file system is left to the container runtime that asks through
// `request`.
bool CanDefer(const csi::v1::NodePublishVolumeRequest& request, const block::Record& volume);
// FAILED_PRECONDITION, naming the target, if one of `others` has the file system in a kernel beside
// which `wanted` must not have it.
base::Status CheckOneKernel(const block::Record& volume, const PublishedTarget& wanted,
                            const std::vector<PublishedTarget>& others);

// Whether the volume may be used with `capability`: FAILED_PRECONDITION if it is of another access
// type or holds another file system.
base::Status CheckUse(const block::Record& volume, const Capability& capability);

}  // namespace berth::csidriver
