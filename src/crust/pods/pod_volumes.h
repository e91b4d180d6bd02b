// The volumes of pods: those that each sandbox of a pod gets while it begins. They are for a caller
// that cannot call between the begin of a sandbox and that of its containers, such as a CSI driver
// under the kubelet (docs/adr/0042). For each volume there are, in the order in which they are
// made:
//
//   its entry in the pod's record (records/pod_records.h)
//   a placeholder at its target path on the host (placeholder.h)
//   its entry in the pod's plan, which berth-oci reads (plan_file.h)
//
// Each outlives the handler, and is made and removed by a call that can be repeated. Sandboxes are
// not known here: what a call must do with those of the pod is handed in.
//
// One call at a time works on a pod; another one waits for `patience` and then gets ABORTED.
// ListVolumes and FindVolume do not wait, so a call that holds a sandbox can make them.
// Thread-safe.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "api/kinds/object_ids.h"
#include "base/key_locks.h"
#include "base/mutex.h"
#include "base/status.h"
#include "crust/paths.h"
#include "crust/records/pod_records.h"
#include "platform/mounts/mounter.h"

namespace berth::crust {

class PodVolumes {
 public:
  // Loads the records of this boot, and writes the plans of their pods if they are missing. The
  // folder of plans exists. `mounter` is borrowed and must outlive the result. Errors: a
  // folder or record cannot be read or written.
  static base::StatusOr<std::unique_ptr<PodVolumes>> Open(const Paths& paths,
                                                          platform::Mounter& mounter,
                                                          std::chrono::milliseconds patience);

  // Forgets the volumes of pods that were removed while nobody unpublished them: the pod's folder
  // in `kubelet_folder` is gone, no placeholder of the pod is mounted, and it has no sandbox. Call
  // it before other calls. What cannot be done is logged.
  void ForgetGonePods(const std::string& kubelet_folder,
                      const std::function<bool(const api::PodUid& pod)>& has_sandbox);

  // Publishes the volume for the pod. A repeated call makes what is missing. A volume with another
  // plan at the same target is replaced, unless `is_used` says that a sandbox has it.
  // FAILED_PRECONDITION: it has, the volume is being unpublished, or something is mounted at its
  // target. RESOURCE_EXHAUSTED: there are too many volumes or pods. INTERNAL: the pod's record
  // cannot be read. If the call fails, nothing of a new volume is left, except after
  // DEADLINE_EXCEEDED.
  base::Status PublishVolume(const api::PodUid& pod, VolumeRecord volume,
                             const std::function<base::StatusOr<bool>()>& is_used);

  // Unpublishes the volume at `target`; OK if it is not known. `take_out` takes it out of each
  // sandbox of the pod, and is called after the record says that no other sandbox gets it.
  // FAILED_PRECONDITION: the volume there is not `host_volume_id`, which is not compared if it is
  // empty; or the placeholder is in use.
  base::Status UnpublishVolume(const api::PodUid& pod, const platform::TargetPath& target,
                               std::string_view host_volume_id,
                               const std::function<base::Status()>& take_out);

  // Has the volume's file system grow to its device in each sandbox that begins from now on.
  // NOT_FOUND: the pod has no volume there.
  base::Status NoteGrowth(const api::PodUid& pod, const platform::TargetPath& target);

  // Returns the volumes that a sandbox of the pod gets. INTERNAL: the pod's record cannot be read.
  base::StatusOr<std::vector<VolumeRecord>> ListVolumes(const api::PodUid& pod);
  // Returns the target paths of all volumes of the pod, also of those that are being unpublished.
  // INTERNAL: as ListVolumes.
  base::StatusOr<std::vector<platform::TargetPath>> ListTargets(const api::PodUid& pod);
  // Returns the pod's volume by the caller's name for it. NOT_FOUND: there is none.
  base::StatusOr<VolumeRecord> FindVolume(const api::PodUid& pod, std::string_view host_volume_id);

 private:
  PodVolumes(const Paths& paths, platform::Mounter& mounter, std::chrono::milliseconds patience,
             PodRecords records)
      : run_folder_(paths.run()),
        mounter_(mounter),
        patience_(patience),
        records_(std::move(records)) {}

  base::StatusOr<base::KeyLocks::Hold> LockPod(const api::PodUid& pod);
  // INTERNAL: the pod's record could not be read when it was loaded.
  base::Status CheckReadable(const api::PodUid& pod) const;
  // Returns the pod's record; one without volumes if there is none.
  PodRecord CopyRecord(const api::PodUid& pod);
  // Writes the record, or removes it if it has no volume.
  base::Status StoreRecord(PodRecord record);
  // Whether the pod's folder is gone, and no placeholder of it is mounted.
  base::StatusOr<bool> IsGone(const PodRecord& record, const std::string& kubelet_folder);
  // Sets the volume's state until the record is stored, without writing it.
  void SetStateNow(const api::PodUid& pod, const platform::TargetPath& target, VolumeState state);
  // Whether `known`, a recorded volume, may become `volume`.
  base::Status CheckReplacement(const api::PodUid& pod, const VolumeRecord& known,
                                const VolumeRecord& volume,
                                const std::function<base::StatusOr<bool>()>& is_used);
  // Removes the placeholder at `target`, and the volume there from the plan and the record.
  base::Status ForgetVolume(PodRecord record, const platform::TargetPath& target);

  const std::string run_folder_;
  platform::Mounter& mounter_;
  const std::chrono::milliseconds patience_;
  const PodRecords records_;
  std::set<api::PodUid> unreadable_;  // set by Open
  base::KeyLocks calls_{"pod"};
  base::Mutex mutex_;
  std::map<api::PodUid, PodRecord> pods_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace berth::crust
