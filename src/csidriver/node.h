// The node service's work: volumes of the pool mapped, mounted and bound to where pods find them.
//
//             stage                      publish (each target)
//   (none) ─────────▶ mapped, prepared, ─────────────────────▶ bound to a target
//                     mounted at staging
//          ◀─────────                   ◀─────────────────────
//            unstage                     unpublish
//
// Every step is recorded (node_records.h) before it is taken, and every "already done" is checked
// against the mount table and the loop device of the volume's very image. Raw block volumes are
// only mapped when staged; publishing binds the device's node to the target file.
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
#include "block/pool.h"
#include "csidriver/node_records.h"
#include "csidriver/presence.h"
#include "csidriver/validate.h"
#include "platform/exec.h"
#include "platform/mounter.h"
#include "proto/csi.pb.h"

namespace berth::csidriver {

class Node {
 public:
  // All are borrowed.
  Node(block::Pool& pool, NodeRecords& records, platform::Mounter& mounter, platform::Exec& exec,
       const Offer& offer)
      : pool_(pool), records_(records), mounter_(mounter), exec_(exec), offer_(offer) {}

  // node_stage.cc
  base::StatusOr<csi::v1::NodeStageVolumeResponse> NodeStageVolume(
      const csi::v1::NodeStageVolumeRequest& request);
  base::StatusOr<csi::v1::NodeUnstageVolumeResponse> NodeUnstageVolume(
      const csi::v1::NodeUnstageVolumeRequest& request);
  // node_publish.cc
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
  base::Status StageMount(const block::Record& volume, const Capability& capability,
                          const std::string& path);
  base::Status UndoStage(const std::string& volume_id);
  base::Status Bind(const block::Record& volume, const PublishedTarget& target,
                    const Presence& presence);
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

// Whether the volume may be used with `capability`: FAILED_PRECONDITION if it is of another access
// type or holds another file system.
base::Status CheckUse(const block::Record& volume, const Capability& capability);

}  // namespace berth::csidriver
