// The volumes that were published for Kata's sandboxes, in memory and in one record for each pod:
//
//   <data>/                    /var/lib/berth/crust/kata
//     lock                     one handler at a time
//     pods/<uid>.json          the pod's volumes
//
//   a volume:  [publishing] ──▶ [published] ──▶ [unpublishing] ──▶ gone
//
// A record is written before the step that it describes (records/boot_records.h). Mount options are
// kept; only root can read the files. Thread-safe, but only one call at a time may change the
// volumes of a pod (LockPod).
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "api/kinds/object_ids.h"
#include "base/fault.h"
#include "base/key_locks.h"
#include "base/mutex.h"
#include "base/status.h"
#include "crust/records/boot_records.h"
#include "crust/records/sandbox_records.h"
#include "rpc/cri_ids.h"

namespace berth::crust::kata {

struct KataVolume {
  api::PodUid pod;
  rpc::SandboxId sandbox;  // empty: for each sandbox of the pod
  VolumeRecord volume;     // never "failed"
  // The size of the device to which the file system last reached: when it was published, or after
  // it grew.
  int64_t device_bytes = 0;
  // How large the file system was before it was asked to grow; none: it is not growing.
  std::optional<int64_t> grows_from;
};

struct KataPod {
  api::PodUid pod;
  std::string boot_id;
  std::vector<KataVolume> volumes;
};

struct KataPodKind {
  using Record = KataPod;
  static constexpr base::FaultName kFault = "crust.kata_record";
  static constexpr std::string_view kName = "the pod's record";
  static std::string IdOf(const KataPod& record) { return record.pod.text(); }
  static std::string Encode(const KataPod& record);
  // Reads what Encode returned. DATA_LOSS: the text is not such a record.
  static base::StatusOr<KataPod> Decode(std::string_view text);
};

class VolumeTable {
 public:
  // Loads the records of this boot. The folder `data` is made if missing. Errors: a folder or
  // record cannot be read or written.
  static base::StatusOr<std::unique_ptr<VolumeTable>> Open(const std::string& data);

  // Waits until no other call holds the pod. ABORTED: one still does after `patience`. INTERNAL:
  // the pod's record could not be read.
  base::StatusOr<base::KeyLocks::Hold> LockPod(const api::PodUid& pod,
                                               std::chrono::milliseconds patience);
  // The pods whose records cannot be read. One that `is_of_boot` does not know is of an earlier
  // boot, and is forgotten.
  void SortOutUnreadable(const std::function<bool(const api::PodUid& pod)>& is_of_boot);

  // Adds a volume in memory, so that no other call gets its device; nothing is written yet.
  // FAILED_PRECONDITION: the device is published elsewhere, and one of the two may write to it.
  // RESOURCE_EXHAUSTED: there are too many volumes.
  base::Status ReserveVolume(const KataVolume& volume);
  // Replaces the volume at its target path in memory and in the pod's record.
  base::Status StoreVolume(const KataVolume& volume);
  // Removes the volume from the pod's record and from memory. OK if it is not there.
  base::Status ForgetVolume(const api::PodUid& pod, const platform::TargetPath& target);

  std::optional<KataVolume> FindTarget(const platform::TargetPath& target) const;
  // Finds a published volume by the caller's name for it. One of `sandbox` and `pod` is empty.
  std::optional<KataVolume> FindVolume(const rpc::SandboxId& sandbox, const api::PodUid& pod,
                                       std::string_view host_volume_id) const;
  std::vector<KataVolume> ListVolumes(const api::PodUid& pod) const;
  std::vector<api::PodUid> ListPods() const;
  // Whether the volume's device is published at another target, too.
  bool IsUsedElsewhere(const KataVolume& volume) const;

 private:
  explicit VolumeTable(BootRecords<KataPodKind> records) : records_(std::move(records)) {}

  base::Status WriteRecord(const api::PodUid& pod) const;

  const BootRecords<KataPodKind> records_;
  base::KeyLocks calls_{"pod"};
  mutable base::Mutex mutex_;
  std::set<api::PodUid> unreadable_ ABSL_GUARDED_BY(mutex_);
  // By target path, which has the pod's UID in it.
  std::map<platform::TargetPath, KataVolume> volumes_ ABSL_GUARDED_BY(mutex_);
  // Reserved, but not in the pod's record yet.
  std::set<platform::TargetPath> unwritten_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace berth::crust::kata
