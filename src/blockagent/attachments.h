// The volumes that this node has attached: fence, device, file system, mounts, and back again.
//
//   Mount    may it? ─▶ record ─▶ fence ─▶ may it still? ─▶ map ─▶ format if blank, check ─▶ mount
//            ─▶ grow ─▶ answer
//   Unmount  record ─▶ unmount ─▶ with the last pod: unmap ─▶ fence ─▶ no record
//
// One at a time for each volume; each step is recorded before it is taken (records.h), so that
// after a restart either call, or the agent by itself, goes on from there:
//
//   Reconcile   a pod is gone         ─▶ taken off as by Unmount
//               the fence names it no more ─▶ taken off at once, by force, and told
//               the image grew        ─▶ device and file system with it
//               the device is dead    ─▶ told: to the pods, and in the fence's status
//
// A pod's mount of a volume for one pod is that of the device; of one that pods share it is bound
// from a mount of the device that all of them have:
//
//   KUBELET/plugins/berth.dev/block/mounts/NAME
//
// Thread-safe. What the parts name is borrowed.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "api/kinds/kinds.h"
#include "base/clock.h"
#include "base/event_sink.h"
#include "base/key_locks.h"
#include "base/mutex.h"
#include "base/status.h"
#include "block/backend.h"
#include "blockagent/consumers.h"
#include "blockagent/fence.h"
#include "blockagent/mount_call.h"
#include "blockagent/records.h"
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
};

class Attachments {
 public:
  using Deadline = std::chrono::steady_clock::time_point;
  // How a volume is taken off.
  struct Force {
    bool on = false;
    // Of ForceUnmap, before its utility is sent SIGINT.
    std::chrono::milliseconds patience{30000};
  };

  static base::StatusOr<std::unique_ptr<Attachments>> Open(AttachmentOptions options,
                                                           AttachmentParts parts);

  // Gives the pod its volume at call.mount_dir; OK if it has it. FAILED_PRECONDITION: it is fenced,
  // or something else is on the device or in the way. Whatever fails may be called again.
  base::Status Mount(const MountCall& call, Deadline deadline);

  // Takes what is mounted at a folder off; OK where nothing is. FAILED_PRECONDITION: it is busy, or
  // something else is mounted there.
  base::Status Unmount(const std::string& mount_dir, Deadline deadline);

  // Takes one use of a volume off this node, and with the last one the device. OK where this node
  // has nothing of it, which says nothing of its fence. By force: mounts go lazily, and the device
  // whatever has it open.
  base::Status TakeOff(const std::string& volume, const api::FenceEntry& use, const Force& force,
                       Deadline deadline);

  // Takes an entry of a NodeCleanup off this node, on record or not, and out of the fence.
  // FAILED_PRECONDITION: what is mounted there cannot be told to be the volume.
  base::Status Clear(const api::CleanupEntry& entry, const Force& force, Deadline deadline);

  // Takes the volume off this node whole, whoever uses it.
  base::Status TakeAllOff(const std::string& volume, const Force& force, Deadline deadline);

  // Whether the fence names that use.
  base::StatusOr<bool> IsFenced(const std::string& volume, const api::FenceEntry& use);

  // Compares the volume's record with fence, pods and image, and does what follows from that.
  // Gives whether something is left that time alone changes: it is to be called again soon.
  base::StatusOr<bool> Reconcile(const std::string& volume, Deadline deadline);

  // Of which there are records.
  std::vector<std::string> Volumes() const;
  // Those of a StorageCluster that this node has on record, or that a fence says it has.
  base::StatusOr<std::set<std::string>> VolumesOf(const std::string& cluster);
  std::optional<Record> Find(const std::string& volume) const { return records_->Get(volume); }

 private:
  // What the API says of a mount.
  struct Subject {
    api::PersistentVolume volume;
    api::Pod pod;
    std::string cluster;
    std::string image;
    base::Json backend;
    bool read_only = false;  // of the pod's mount
    bool map_read_only = false;
    Sharing sharing = Sharing::kOnePod;
    std::string fs_type;
    std::vector<std::string> mount_options;
  };
  using BackendPtr = std::shared_ptr<block::Backend>;

  Attachments(AttachmentOptions options, AttachmentParts parts, std::unique_ptr<Records> records,
              std::string boot_id);

  base::StatusOr<Subject> FindSubject(const MountCall& call);
  base::StatusOr<BackendPtr> OpenBackend(const base::Json& settings);

  base::Status MountLocked(const MountCall& call, const Subject& subject);
  // Before a use comes in: takes off what others have of the volume here that the fence does not
  // name, or whose pods are gone.
  base::Status TakeOffLeftovers(const std::string& volume, const api::FenceEntry& coming);
  base::StatusOr<api::VolumeFence> AcquireFence(const Subject& subject, const Use& use,
                                                bool likely_first, block::Backend& backend,
                                                const std::function<base::Status()>& entering);
  BackendFact AskBackend(block::Backend& backend, const std::string& image,
                         const std::string& node);
  // Whether the pod has it mounted already, as recorded.
  base::StatusOr<bool> IsMounted(const Record& record, const Use& use);
  base::Status MapAndMount(const Subject& subject, Record& record, const api::FenceEntry& entry,
                           block::Backend& backend);
  base::Status MountDevice(const Subject& subject, Record& record, const std::string& target,
                           bool read_only, block::Backend& backend);
  // Readies the file system on the device for its mount, and makes it where there is none.
  base::Status ReadyDevice(const Subject& subject, Record& record, block::Backend& backend);
  base::Status MountUse(const Subject& subject, Record& record, const api::FenceEntry& entry,
                        block::Backend& backend);
  void Grow(Record& record, block::Backend& backend);
  // Tells why the volume's device carries nothing any more.
  void TellQuarantined(const Record& record, const std::string& why);

  base::Status TakeOffLocked(Record record, const api::FenceEntry& entry, const Force& force);
  // Of a use that the fence does not name: another may have the volume by now.
  base::Status TakeOffLost(const Record& record, const Use& use);
  // Unmounts all that shows the record's device at `target`.
  base::Status UnmountAt(const Record& record, const std::string& target, bool lazily);
  // Of the pod, and with the last one what pods share.
  base::Status UnmountAll(const Record& record, const api::FenceEntry& entry, bool lazily);
  void ShutOff(const Record& record, const Force& force);
  base::Status UnmapLocked(Record& record, const Force& force);
  // Makes a record of what is mounted at a folder of which there is none; nullopt: there is nothing
  // of ours.
  base::StatusOr<std::optional<Record>> Adopt(const std::string& mount_dir,
                                              const platform::MountEntry* mounted);
  base::StatusOr<std::optional<Record>> AdoptVolume(const std::string& volume,
                                                    const std::string& mount_dir,
                                                    const std::string& pod_uid,
                                                    const platform::MountEntry* mounted);
  base::Status TakeAllOffLocked(const std::string& volume, const Force& force);
  base::Status ClearLocked(const api::CleanupEntry& entry, const Force& force);
  // The settings of a cluster's back end; null where it has none, or is gone.
  base::StatusOr<base::Json> BackendOf(const std::string& cluster_name);
  // Makes a record of an image that is mapped here and of no record; nullopt: it is not.
  base::StatusOr<std::optional<Record>> AdoptImage(const api::CleanupEntry& entry);
  base::Status ReconcileUses(Record& record, bool& again);
  // Tells that what a pod uses here is taken from it.
  void TellLost(const Record& record, const api::FenceEntry& use);

  void TellDevice(const Record& record, std::string_view state, const std::string& message,
                  const api::VolumeFence* known = nullptr);
  std::string SharedMount(const std::string& volume) const;

  const AttachmentOptions options_;
  AttachmentParts parts_;
  const std::unique_ptr<Records> records_;
  const std::string boot_id_;
  Consumers consumers_;
  Fences fences_;
  base::KeyLocks locks_{"volume"};
  base::KeyLocks image_locks_{"image"};  // taken after a volume's
  base::Mutex mutex_;
  std::map<std::string, BackendPtr> backends_ ABSL_GUARDED_BY(mutex_);  // by settings
};

// Whether a mount shows the file system on the mapping's device.
bool Shows(const platform::MountEntry& mount, const block::Mapping& mapping);

}  // namespace berth::blockagent
