// Attaches volumes to this node and detaches them: fence, device, file system and mounts.
//
//   Mount    may it? ─▶ record ─▶ fence ─▶ may it still? ─▶ map ─▶ format if blank, check ─▶ mount
//            ─▶ grow ─▶ answer
//   Unmount  record ─▶ unmount ─▶ with the last pod: unmap ─▶ fence ─▶ no record
//
// Only one call works on a volume at a time. Each step is recorded before it is taken (records.h),
// so that after a restart a repeated call continues from there, or Reconcile, which the agent calls
// without a request:
//
//   Reconcile   a pod is gone         ─▶ taken off as by Unmount
//               the fence lost it     ─▶ written into the fence again, and told (fence_rules.h)
//               another has taken it  ─▶ taken off at once, by force, and told
//               the image grew        ─▶ device and file system with it
//               the device is dead    ─▶ told: to the pods, and in the fence's status
//
// If only one pod may use a volume, the device is mounted at the pod's folder. If pods may share
// it, each pod gets a bind mount of one common mount of the device:
//
//   KUBELET/plugins/berth.dev/block/mounts/NAME
//
// Thread-safe. The objects in AttachmentParts are borrowed.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

#include "api/kinds/kinds.h"
#include "api/kinds/object_ids.h"
#include "base/clock.h"
#include "base/event_sink.h"
#include "base/key_locks.h"
#include "base/mutex.h"
#include "base/shared_read.h"
#include "base/status.h"
#include "block/backend.h"
#include "blockagent/consumers.h"
#include "blockagent/fence.h"
#include "blockagent/mount_call.h"
#include "blockagent/records.h"
#include "blockagent/self_fence.h"
#include "kube/client.h"
#include "platform/mounts/mounter.h"
#include "platform/processes/exec.h"

namespace berth::blockagent {

// Opens a StorageCluster's back end: block::OpenBackend.
using MakeBackend =
    std::function<base::StatusOr<std::unique_ptr<block::Backend>>(const base::Json& settings)>;

struct AttachmentParts {
  kube::Client& client;
  platform::Exec& exec;
  platform::Mounter& mounter;
  base::EventSink& events;
  const base::Clock& clock;
  MakeBackend make_backend;
};

struct AttachmentOptions {
  std::string node;
  std::string data_folder;     // DATA/block-agent
  std::string kubelet_folder;  // /var/lib/kubelet
  Consumers::Options consumers;
  // How long Expand waits for the image to get its size.
  std::chrono::milliseconds image_patience{std::chrono::seconds(10)};
};

class Attachments {
 public:
  using Deadline = std::chrono::steady_clock::time_point;
  // Whether a volume is taken off by force.
  struct Force {
    bool on = false;
    // The patience of Backend::ForceUnmap.
    std::chrono::milliseconds patience{30000};
  };

  // Reads the records. DATA_LOSS: a record is damaged.
  static base::StatusOr<std::unique_ptr<Attachments>> Open(AttachmentOptions options,
                                                           AttachmentParts parts);

  // `deadline` bounds only how long each of these calls waits for another call that works on the
  // same volume: DEADLINE_EXCEEDED.

  // Mounts the pod's volume at call.mount_dir; OK if it is mounted there already.
  // FAILED_PRECONDITION: an API object is missing or does not fit, the StorageCluster is being
  // deleted, the fence keeps the pod out, or something else is on the device or at the folder.
  // PERMISSION_DENIED: the pod does not use the volume's claim. The caller may repeat a call that
  // failed.
  base::Status Mount(const MountCall& call, Deadline deadline);

  // Unmounts the volume at a folder and removes the pod's use from the fence; with the last use on
  // this node, also unmaps the device. OK if nothing is mounted there. FAILED_PRECONDITION: the
  // volume is busy, or something else is mounted there.
  base::Status Unmount(const std::string& mount_dir, Deadline deadline);

  // Grows the device and the file system of the volume at a pod's folder to the size of the image.
  // UNAVAILABLE: the image still has less than `bytes` after some seconds, or EndWaits was called.
  // FAILED_PRECONDITION: this node does not have the volume mounted. DATA_LOSS: the device is dead.
  base::Status Expand(const std::string& mount_dir, int64_t bytes, Deadline deadline);
  // Ends the waits of Expand, now and later, because the agent ends.
  void EndWaits() { stopping_.request_stop(); }

  // Takes one use of a volume off this node, and with the last use the device. OK if this node has
  // no record of the volume; the fence may still name the node then. By force: mounts are detached
  // lazily, and the device is unmapped even if something has it open.
  base::Status TakeOff(const std::string& volume, const api::FenceEntry& use, const Force& force,
                       Deadline deadline);

  // Takes the use that an entry of a NodeCleanup names off this node, whether or not there is a
  // record of it, and removes it from the fence. FAILED_PRECONDITION: nothing shows that the mount
  // at the entry's folder is of the volume.
  base::Status TakeEntryOff(const api::CleanupEntry& entry, const Force& force, Deadline deadline);

  // Takes all uses of the volume off this node: those on record, and those that the fence names.
  base::Status TakeAllOff(const std::string& volume, const Force& force, Deadline deadline);

  // Whether the fence names that use.
  base::StatusOr<bool> IsFenced(const std::string& volume, const api::FenceEntry& use);

  // Compares the volume's record with fence, pods and image, and takes the steps listed above.
  // Gives true if the caller should call it again soon, because a use is still attaching or could
  // not be taken off.
  base::StatusOr<bool> Reconcile(const std::string& volume, Deadline deadline);

  // For SelfFence: the volumes on record of back ends that fence nodes; whether the storage says
  // that this node holds the volume's lock; and the removal of the device and mounts of a volume
  // whose node is cut off, which asks neither the API nor the storage. Its uses stay on record and
  // in the fence, until Reconcile reaches the API.
  std::vector<SelfFence::Volume> ListMovableVolumes();
  base::Status CheckOwnLock(const std::string& volume);
  base::Status TakeOffCutOff(const std::string& volume, const Force& force, Deadline deadline);
  // Tells by events that TakeOffCutOff took the volume off.
  void ReportCutOff(const std::string& volume);

  // Exchanges locks with other nodes by the back end of the cluster, as Backend::ExchangeLocks
  // does.
  base::Status ExchangeLocks(const api::StorageCluster& cluster);
  // Ends that for a cluster that had these settings and this uid.
  base::Status LeaveLocks(const base::Json& settings, const std::string& uid);

  // The volumes of which there are records.
  std::vector<std::string> ListVolumes() const;
  // The volumes of a StorageCluster that this node has on record, or for which a fence names this
  // node. The fences are read from the API.
  base::StatusOr<std::set<std::string>> FindVolumesOf(const std::string& cluster);
  // The volume's record; nullopt: there is none.
  std::optional<Record> Find(const std::string& volume) const { return records_->Get(volume); }

 private:
  // What the API objects say about the volume that a call mounts.
  struct Subject {
    api::PersistentVolume volume;
    api::Pod pod;
    std::string cluster;
    std::string cluster_uid;
    std::string image;
    base::Json backend;
    bool read_only = false;  // of the pod's mount
    bool map_read_only = false;
    Sharing sharing = Sharing::kOnePod;
    std::string fs_type;
    std::vector<std::string> mount_options;
  };
  using BackendPtr = std::shared_ptr<block::Backend>;
  using ClusterRead = base::SharedRead<base::StatusOr<api::StorageCluster>>;

  Attachments(AttachmentOptions options, AttachmentParts parts, std::unique_ptr<Records> records,
              std::string boot_id);

  base::StatusOr<Subject> FindSubject(const MountCall& call);
  // Reads a StorageCluster whose volumes may be mounted. Threads that ask at the same moment share
  // one read, because hundreds of volumes of a cluster may be mounted at once.
  base::StatusOr<api::StorageCluster> ReadUsableCluster(const std::string& name);
  base::StatusOr<BackendPtr> OpenBackend(const base::Json& settings);

  base::Status MountLocked(const MountCall& call, const Subject& subject);
  // Before a new use begins, settles the other uses of the volume on this node that the fence does
  // not name, and takes off those whose pods are gone.
  base::Status TakeOffLeftovers(const std::string& volume, const api::FenceEntry& coming);
  base::StatusOr<api::VolumeFence> AcquireFence(const Subject& subject, const Use& use,
                                                bool likely_first, block::Backend& backend,
                                                const std::function<base::Status()>& entering);
  // Finds whether the image has a lock, which may be that of `node`. `note` says why that is not
  // known.
  static BackendFact FindLock(block::Backend& backend, const Subject& subject,
                              const api::NodeName& node, std::string& note);
  // Has the storage fence each node that still has to take the volume off, if the back end can do
  // that. The fence must name this node's pod: as long as it does, no other node may use the
  // volume, so that no rightful use is hit.
  base::Status FenceOwingNodes(const Subject& subject, block::Backend& backend);
  // Reads the fence once more, after the image was mapped, if the back end fences nodes. ABORTED:
  // it no longer names the use, because this process was frozen meanwhile. The device is unmapped.
  base::Status CheckStillNamed(const Subject& subject, Record& record, const api::FenceEntry& entry,
                               block::Backend& backend);
  // Whether the recorded device is mounted at the use's folder.
  base::StatusOr<bool> IsMounted(const Record& record, const Use& use);
  base::Status MapAndMount(const Subject& subject, Record& record, const api::FenceEntry& entry,
                           block::Backend& backend);
  base::Status MountDevice(const Subject& subject, Record& record, const std::string& target,
                           bool read_only, block::Backend& backend);
  // Prepares the file system on the device for its mount, and runs mkfs if there is none.
  base::Status PrepareDevice(const Subject& subject, Record& record, block::Backend& backend);
  base::Status MountUse(const Subject& subject, Record& record, const api::FenceEntry& entry,
                        block::Backend& backend);
  // Grows the device and its file system if the image grew. The record must have a mapping.
  base::Status GrowVolume(Record& record, block::Backend& backend);
  // Grows the volume, and returns the size that its device has then.
  base::StatusOr<int64_t> GrowRecorded(const api::VolumeName& volume, const std::string& mount_dir,
                                       Deadline deadline);
  // Reports in events and in the fence's status why the volume's device no longer works.
  void ReportQuarantined(const Record& record, const std::string& why);

  base::Status TakeOffLocked(Record record, const api::FenceEntry& entry, const Force& force);
  // Writes a mounted use that the fence does not name into it again, unless the volume was taken
  // away from this node (Fences::Restore).
  base::StatusOr<LossDecision> RestoreFence(const Record& record, const api::FenceEntry& use);
  // What the back end knows of the lock of this node's mapping.
  BackendFact FindOwnLock(const Record& record);
  // Restores a use that the fence does not name, or takes it off: by force if the volume was taken
  // away. `restored` becomes true if the fence names it again.
  base::Status SettleLost(const Record& record, const Use& use, bool& restored);
  // Unmounts every mount of the record's device at `folder`. FAILED_PRECONDITION: something else is
  // mounted there.
  base::Status UnmountAt(const Record& record, const std::string& folder, bool lazily);
  // Unmounts the last pod's mount, and the mount that pods share.
  base::Status UnmountAll(const Record& record, const api::FenceEntry& entry, bool lazily);
  void ShutOffDevice(const Record& record, const Force& force);
  // Removes the device, also one that is not on record yet. False: the image is not mapped here.
  base::StatusOr<bool> UnmapLocked(Record& record, const Force& force);
  // For an image that is not mapped here: frees it from what a dead process of this node held
  // (Backend::FreeFromDead). False: the storage could not be asked. Then a record without uses
  // stays, with which Reconcile asks again. No pod and no other node waits for that. DATA_LOSS:
  // what that process answered may be lost. That is told until force gives it up.
  base::StatusOr<bool> FreeFromDead(const Record& record, const Force& force);
  // Unmaps the image, and frees it from what a process held that was killed now or is dead. False
  // as for FreeFromDead.
  base::StatusOr<bool> TakeDeviceOff(Record& record, const Force& force);
  // Takes the device of a record without uses off, and then removes the record.
  base::Status TakeOffUnused(Record record, const Force& force);
  // Makes a record, which it does not write, of a mount that has no record yet. nullopt: the mount
  // is not of a volume of this agent.
  base::StatusOr<std::optional<Record>> AdoptMount(const std::string& mount_dir,
                                                   const platform::MountEntry* mounted);
  base::StatusOr<std::optional<Record>> AdoptVolume(const api::VolumeName& volume,
                                                    const std::string& mount_dir,
                                                    const api::PodUid& pod,
                                                    const platform::MountEntry* mounted);
  base::Status TakeAllOffLocked(const std::string& volume, const Force& force);
  base::Status TakeEntryOffLocked(const api::CleanupEntry& entry, const Force& force);
  // Reads the settings of a cluster's back end. Null: the cluster has none, or does not exist.
  base::StatusOr<base::Json> ReadBackendSettings(const std::string& cluster_name);
  // Makes a record, which it does not write, of an image that is mapped here but has no record yet.
  // nullopt: the image is not mapped here, and freed from what an earlier process of this node
  // held; or it belongs to another volume on record.
  base::StatusOr<std::optional<Record>> AdoptImage(const api::CleanupEntry& entry,
                                                   const Force& force);
  base::Status ReconcileUses(Record& record, bool& again);
  // Reports in events that a pod loses the volume that it uses here, and why.
  void ReportLost(const Record& record, const api::FenceEntry& use, const std::string& why);
  // Writes the state of the device into the fence's status. A failure is only logged.
  void ReportDevice(const Record& record, std::string_view state, const std::string& message,
                    const api::VolumeFence* known = nullptr);
  // The path of the mount that the volume's pods share.
  std::string SharedMountOf(const std::string& volume) const;

  const AttachmentOptions options_;
  AttachmentParts parts_;
  const std::unique_ptr<Records> records_;
  const std::string boot_id_;
  Consumers consumers_;
  Fences fences_;
  std::stop_source stopping_;
  base::KeyLocks locks_{"volume"};
  base::KeyLocks image_locks_{"image"};  // by image; taken after the volume's lock
  base::Mutex mutex_;
  std::map<std::string, BackendPtr> backends_ ABSL_GUARDED_BY(mutex_);  // by settings
  std::map<std::string, std::shared_ptr<ClusterRead>> cluster_reads_ ABSL_GUARDED_BY(mutex_);
  // What to tell of volumes that were taken off because this node was cut off, by volume.
  std::map<std::string, std::vector<base::ObjectReference>> cut_off_ ABSL_GUARDED_BY(mutex_);
};

// The record's PersistentVolume, for events.
base::ObjectReference ReferenceToVolume(const Record& record);
// Whether a mount shows the file system on the mapping's device.
bool Shows(const platform::MountEntry& mount, const block::Mapping& mapping);

}  // namespace berth::blockagent
