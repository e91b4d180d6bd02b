// The proxy's records of volumes, in one file for each: how the driver has staged it, and which
// pods' runtime handlers have it.
//
//   staging   the kubelet stages ─▶ [deferred] ─▶ [block]  as a block device, for a handler
//                                      │  ▲ ▲        │
//                                      │  │ └────────┘     its last pod has left, and the next pod
//                                      │  │                wants it on the host
//                                      ▼  │ the driver refuses the first request
//                                   [mounting]             the driver is asked as the kubelet
//                                        │                 asked, and has not answered OK
//                                        ▼
//                                     [mount]              for the host
//
//   a pod     [publishing] ─▶ [published] ─▶ gone
//   a host's target           from the request to the driver until it is unpublished
//
// A record is written durably before the step that it describes. A volume without a record is the
// driver's and the kubelet's alone. Secrets are never recorded: a volume that is staged with
// secrets is not deferred. After a reboot nothing is published, and no host's target is left.
// Thread-safe for different volumes.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/kinds/object_ids.h"
#include "base/mutex.h"
#include "base/status.h"
#include "platform/mounts/mount_paths.h"
#include "proto/csi.pb.h"
#include "volume/volume_plugin.h"

namespace berth::crustproxy {

enum class Staging {
  kByKubelet,  // the driver has no stages, or leaves mounts to handlers by itself
  kDeferred,   // the kubelet was told that it is staged, but the driver was not asked yet
  kMounting,   // it may be staged for the host; a repeated request finds out
  kMount,
  kBlock,
};

struct PodUse {
  api::PodUid pod;
  platform::TargetPath target;  // the kubelet's
  std::string handler;          // the socket of the pod's runtime handler
  bool left_by_driver = false;  // the driver left the mount; else it is published as a device
  bool published = false;       // the handler has it
  volume::DeferredMount mount;  // what the handler was asked for
};

struct VolumeRecord {
  api::VolumeHandle handle;
  // The name of the PersistentVolume, which the paths of the block device contain.
  api::VolumeName name;
  Staging staging = Staging::kByKubelet;
  csi::v1::NodeStageVolumeRequest stage;  // the kubelet's, without secrets
  std::vector<PodUse> pods;
  // The kubelet's targets at which the driver mounts on the host. They are kept only of a driver
  // without stages, whose staging does not show that the host has the volume.
  std::vector<platform::TargetPath> host_targets;

  // nullptr: no pod has that target.
  PodUse* FindPod(const std::string& target);
  void RemovePod(const std::string& target);
  bool HasHostTarget(const std::string& target) const;
  void RemoveHostTarget(const std::string& target);
};

std::string Encode(const VolumeRecord& record, std::string_view boot_id);
// DATA_LOSS: the text is not such a record. `boot_id` is that of this boot.
base::StatusOr<VolumeRecord> DecodeVolumeRecord(std::string_view text, std::string_view boot_id);

class VolumeRecords {
 public:
  // Makes the folder if it is missing, and reads all records. DATA_LOSS: one is damaged.
  static base::StatusOr<std::unique_ptr<VolumeRecords>> Open(std::string folder);

  std::optional<VolumeRecord> Find(const std::string& handle) const;
  // Durable when the call has returned OK. Remove is OK if there is no record.
  base::Status Write(const VolumeRecord& record);
  base::Status Remove(const std::string& handle);

 private:
  VolumeRecords(std::string folder, std::string boot_id)
      : folder_(std::move(folder)), boot_id_(std::move(boot_id)) {}
  // The file's name is a digest, because a handle may be long and contain '/'.
  std::string Path(const std::string& handle) const;

  const std::string folder_;
  const std::string boot_id_;
  mutable base::Mutex mutex_;
  std::map<std::string, VolumeRecord> records_ ABSL_GUARDED_BY(mutex_);  // by handle
};

}  // namespace berth::crustproxy
