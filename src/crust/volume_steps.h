// The steps of one volume in one sandbox, whose states sandbox_records.h draws: in, in again by
// another path of its device, and out. Each step writes the sandbox's record before it acts, and
// leaves the record as it was where it cannot be written.
//
// The caller holds the sandbox's entry, which is open. Thread-safe for different entries. A failure
// of a publish that is DEADLINE_EXCEEDED or INTERNAL has an unknown outcome: the volume stays
// "publishing", since the kernel may mount it still.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <string>

#include "base/status.h"
#include "crust/sandbox_records.h"
#include "crust/sandbox_table.h"

namespace berth::crust {

class VolumeSteps {
 public:
  using Entry = SandboxTable::Entry;

  // All are borrowed and must outlive this. `free_within`: how long a device may take to come free
  // once its last mount went. `stopping`: ends walks that give files to groups.
  VolumeSteps(SandboxTable& sandboxes, const SandboxRecords& records,
              std::chrono::milliseconds free_within, const std::atomic<bool>& stopping)
      : sandboxes_(sandboxes), records_(records), free_within_(free_within), stopping_(stopping) {}

  // `volume` is "publishing", and no volume of the record has its target.
  base::Status PublishNew(Entry& entry, VolumeRecord volume);
  // `volume` is of the entry's record, in any state but "unpublishing". What is mounted already is
  // left as it is.
  base::Status PublishAgain(Entry& entry, VolumeRecord& volume);
  // The node agent has another path now for the same device (/dev/disk/by-id/x, /dev/sdb), by which
  // it will ask for the volume.
  base::Status RecordOtherPath(Entry& entry, VolumeRecord& volume,
                               const std::string& host_volume_id, MountPlan plan);
  // OK where nothing is recorded at `target`. Its device is free when it returns OK, unless another
  // sandbox or target uses it.
  base::Status Unpublish(Entry& entry, const std::string& target);

 private:
  // Writes the record as `change` makes it; its volumes are as before where that fails.
  base::Status ChangeRecord(SandboxRecord& record, const std::function<void()>& change);
  base::Status SetState(Entry& entry, VolumeRecord& volume, VolumeState state);
  base::Status Publish(Entry& entry, VolumeRecord& volume, bool absent);
  base::Status ForgetVolume(Entry& entry, VolumeRecord& volume);
  base::Status WaitUntilFree(const SandboxRecord& record, const VolumeRecord& volume);

  SandboxTable& sandboxes_;
  const SandboxRecords& records_;
  const std::chrono::milliseconds free_within_;
  const std::atomic<bool>& stopping_;
};

}  // namespace berth::crust
