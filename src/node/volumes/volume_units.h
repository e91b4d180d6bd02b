// The serial queues of the volume manager: one unit for each volume, with the pods that use it.
//
// A unit is a device that pods share, or a volume of one pod. A worker compares what pods want with
// what the records say, and takes the next steps, until nothing is left to do or the unit has to
// wait. An event only wakes a unit and does not say what to do, so a stale event does no harm.
//
//   a pod's use (volume_use.h draws its phases):
//     WantVolume ──▶ [mounting] ──▶ SetUp ──▶ ready ──▶ [mounted]
//     ReleaseVolumes ──▶ [unmounting] ──▶ TearDown ──▶ record removed
//
//   the device, if the volume has one:
//     first use ──▶ in volumesInUse, attached ──▶ [mounting] ──▶ MountDevice ──▶ [mounted]
//     last use gone ──▶ [unmounting] ──▶ UnmountDevice ──▶ record removed ──▶ no longer listed
//
//   [x] is a durable record, written before the next step begins. [mounted] is written after the
//   pod was told, because a crash before it costs no more than one repeated call.
//
// After a restart a use is ready at once only if its record says `mounted` in this boot and one of
// these is true: the mount table still shows the recorded mount, or the mount was left to a runtime
// handler (which is asked each time before a container gets the volume). All other steps are
// repeated or undone, because the plugins' calls are idempotent. A tear-down that was begun is
// finished before any other step of that use. The unmount of a device that was begun is finished
// before any other step of the unit that needs the device.
//
// A step that fails is repeated after a backoff; the pod's reason and an event say why. If a
// TearDown has an unknown outcome, no other pod gets the volume until a TearDown has succeeded
// (docs/design.md, rule 3).
//
// The dependencies are borrowed and must outlive this object. Thread-safe; no call waits for a
// volume.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "api/kinds/kinds.h"
#include "base/event_sink.h"
#include "base/mutex.h"
#include "base/workers/keyed_workers.h"
#include "base/workers/worker_shares.h"
#include "node/volumes/crust_deferral.h"
#include "node/volumes/volume_attachments.h"
#include "node/volumes/volume_expansion.h"
#include "node/volumes/volume_manager.h"
#include "node/volumes/volume_parts_owner.h"
#include "node/volumes/volume_records.h"
#include "node/volumes/volume_use.h"
#include "platform/mounts/fuse_watch.h"
#include "volume/host.h"
#include "volume/plugin_registry.h"
#include "volume/volume_plugin.h"

namespace berth::node {

// The id of the use of a volume that a pod wants, and of the use that a record describes.
UseId UseOf(const WantedVolume& wanted, const api::PodUid& pod);
UseId UseOf(const volume::PodVolumeRecord& record);

struct VolumeState {
  bool ready = false;
  bool begun = false;    // see PodVolumes
  bool no_room = false;  // see PodVolumes
  volume::Published published;
  std::string reason;
};

class VolumeUnits {
 public:
  struct Dependencies {
    VolumeRecords& records;
    VolumeAttachments& attachments;
    VolumeExpansion& expansion;
    CrustDeferral& deferral;
    volume::Host& host;
    base::EventSink& events;
    volume::PluginRegistry& plugins;
    VolumePartsOwner& owner;
  };

  VolumeUnits(const VolumeManagerOptions& options, Dependencies dependencies);
  ~VolumeUnits() { Stop(); }

  // Makes the units and uses that the records describe. `table` is the present mount table. Call it
  // once, before Start.
  void LoadRecords(VolumeRecords::Loaded loaded, const std::vector<platform::MountEntry>& table);
  void Start();
  void Stop();

  void WantVolume(std::shared_ptr<const api::Pod> pod, WantedVolume wanted);
  void ReleaseVolumes(const std::string& pod_uid);
  // True if no unit has anything left of the pod's volumes.
  bool IsGone(const std::string& pod_uid) const;
  VolumeState State(const UseId& id) const;
  std::vector<DeferredVolume> Deferred(const std::string& pod_uid) const;
  void NoteSandbox(const api::PodUid& pod, const rpc::SandboxId& sandbox);
  std::set<std::string> Pods() const;
  // The pods that want a volume of this CSI driver, or of this plugin.
  std::set<std::string> PodsOf(const std::string& driver) const;
  std::set<std::string> DevicesInUse() const;

  // A use that is set up, with what volume_health.h needs to ask about it.
  struct Ready {
    std::shared_ptr<volume::VolumePlugin> plugin;
    volume::PodVolumeRecord record;
    std::string name;    // the pod's name for the volume
    std::string driver;  // the CSI driver's name, or else the plugin's
    std::string claim;   // "namespace/name"; empty: the volume has no claim
    base::ObjectReference pod;
  };
  // Volumes that are set up, by "UNIT USE". A deferred volume is left out until its sandbox is
  // known.
  std::map<std::string, Ready> AllReady() const;

  // Wakes the unit, because something that it waits for may have come.
  void WakeUnit(const std::string& unit);
  void WakeAllUnits();
  // The API has accepted a new list of volumes in use: units that wait for that are tried now.
  void RetryUnreported();
  void DriverRegistered(const std::string& driver);
  // Releases one use, which is then torn down.
  void ReleaseUse(const UseId& id);
  // Handles mounts whose FUSE server has ended: reports `why` to the pods that use one, and wakes
  // the units that have one (dead_mounts.h).
  void HandleLostMounts(const platform::LostFuse& lost, const std::string& why);
  // Refreshes the unit, because objects that its content follows have changed.
  void Refresh(const std::string& unit);

 private:
  using Use = VolumeUse;
  struct Unit {
    std::shared_ptr<volume::VolumePlugin> plugin;
    std::string device_name;
    bool needs_attach = false;
    std::optional<StoredDevice> device;
    bool waits_for_report = false;  // for the API to list the device as in use
    bool device_mounted = false;    // MountDevice succeeded in this process
    bool device_recorded = false;   // the record says that it is mounted
    int64_t expanded_to = 0;        // the size that Expand last made
    int64_t expand_refused = 0;     // the size that it refused for good
    std::string expanded_claim;     // the claim's resourceVersion that Expand was done for
    std::map<std::string, Use> uses;
  };
  // A copy of what a step needs, because no lock is held while the step runs.
  struct Job {
    std::string unit;
    std::string use;
    std::shared_ptr<const api::Pod> pod;
    WantedVolume volume;
    std::optional<StoredPodVolume> stored;
    std::optional<StoredDevice> device;
    bool device_mounted = false;
    std::shared_ptr<volume::VolumePlugin> plugin;
  };

  base::KeyedWorkers::Outcome Reconcile(const std::string& key);
  std::vector<Job> FindJobs(const std::string& key,
                            const std::function<bool(const Unit&, const Use&)>& condition) const;

  base::Status TearDownReleased(const std::string& key);
  base::Status TearDown(const Job& job);
  base::Status TearDownInPlugin(const Job& job, const StoredPodVolume& stored);
  base::Status SetUpWanted(const std::string& key);
  base::Status SetUp(Job job);
  bool KeepsLimits(const volume::VolumeSpec& spec) const;
  base::Status CheckReachable(const volume::VolumeSpec& spec) const;
  std::string ConflictOf(const Job& job) const;
  base::Status FinishDeviceUnmount(const std::string& key);
  base::Status UnmountDevice(volume::VolumePlugin& plugin, const StoredDevice& device) const;
  base::StatusOr<bool> IsDeviceMounted(const Job& job) const;
  base::StatusOr<bool> MountDevice(Job& job, const Attachment& attachment);
  base::Status SetUpForPod(Job& job, const Attachment& attachment);
  base::StatusOr<HandlerChoice> ChooseHandler(const Job& job) const;
  base::StatusOr<volume::Published> PublishForPod(Job& job, const Attachment& attachment,
                                                  const HandlerChoice& choice);
  base::Status MaintainUses(const std::string& key);
  base::Status RefreshUse(const Job& job);
  base::Status ExpandUnit(const std::string& key);
  // True if a use of the unit is set up already.
  bool IsInUse(const std::string& key) const;
  // Asks the plugin to grow the volume to `bytes`, and notes the outcome. A permanent failure is
  // reported to pod and claim, and OK is returned. Does nothing if this size was reached or refused
  // before.
  base::Status ExpandVolume(const Job& job, int64_t bytes);
  void RecordMounted(const std::string& key);
  base::Status UnmountUnusedDevice(const std::string& key);
  void EraseUses(const std::string& key);

  // Sets why the use waits, or why it failed.
  void SetReason(const Job& job, std::string reason);
  // Notes that everything that the use waited for is there, unless an attempt has failed.
  void SetBegun(const Job& job);
  void WarnPod(const Job& job, std::string_view event, std::string_view message);
  base::Status ReportFailure(const Job& job, std::string_view what, const base::Status& why);
  // Finds the plugin of the volume. UNAVAILABLE: there is none.
  base::StatusOr<std::shared_ptr<volume::VolumePlugin>> FindPlugin(std::string_view name) const;
  bool IsThisBoot(const std::string& boot_id) const {
    return platform::IsThisBoot(boot_id, deps_.records.boot_id());
  }
  void WakeUnitsWhere(const std::function<bool(Unit&)>& condition);
  // Runs `change` on the unit and the use under the lock, if they (still) exist.
  void UpdateUse(const Job& job, const std::function<void(Unit&, Use&)>& change);

  const std::chrono::milliseconds refresh_interval_;
  const Dependencies deps_;
  mutable base::Mutex mutex_;
  std::map<std::string, std::unique_ptr<Unit>> units_ ABSL_GUARDED_BY(mutex_);
  base::WorkGroups namespaces_;  // of the pods that use the units, by unit; they share the workers
  base::KeyedWorkers workers_;
};

}  // namespace berth::node
