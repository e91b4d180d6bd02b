// Has a driver that knows nothing of runtime handlers publish a volume as a block device, where the
// kubelet asked for a file system, and makes the file system on it ready.
//
// UNIMPLEMENTED: the driver says OK, but does not do what it was asked for: it mounts a file system
// in place of the device, or gives none. What it did is there until it is undone.
//
// The paths are those at which the kubelet stages and publishes block volumes, so that the driver
// sees what it knows (volume/paths.h). Every call is idempotent and blocks, with a deadline.
// Thread-safe for different volumes.
#pragma once

#include <string>

#include "api/kinds/object_ids.h"
#include "base/status.h"
#include "crustproxy/volume_records.h"
#include "platform/mounts/mounter.h"
#include "platform/processes/exec.h"
#include "proto/csi.pb.h"
#include "rpc/csi_client.h"
#include "volume/paths.h"

namespace berth::crustproxy {

class BlockDevices {
 public:
  // Borrows all. Utilities (mkfs, fsck) are run by `exec`.
  BlockDevices(rpc::CsiClient& driver, platform::Exec& exec, platform::Mounter& mounter,
               const volume::Paths& paths)
      : driver_(driver), exec_(exec), mounter_(mounter), paths_(paths) {}

  // Stages the volume as a block device, as the kubelet's request in the record says.
  base::Status Stage(const VolumeRecord& record);
  // Publishes it for the pod of the kubelet's request. Returns the device's path on the host.
  base::StatusOr<std::string> Publish(const VolumeRecord& record, const api::PodUid& pod,
                                      const csi::v1::NodePublishVolumeRequest& request);
  // Makes the device's file system ready: a blank device gets one, any other is checked.
  base::Status PrepareFileSystem(const std::string& device, const std::string& type);
  // Grows the volume at the driver.
  base::StatusOr<csi::v1::NodeExpandVolumeResponse> Expand(
      const VolumeRecord& record, const api::PodUid& pod,
      const csi::v1::NodeExpandVolumeRequest& request);
  base::Status Unpublish(const VolumeRecord& record, const api::PodUid& pod);
  base::Status Unstage(const VolumeRecord& record);

 private:
  rpc::CsiClient& driver_;
  platform::Exec& exec_;
  platform::Mounter& mounter_;
  const volume::Paths& paths_;
};

}  // namespace berth::crustproxy
