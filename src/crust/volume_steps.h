// The steps of one volume in one sandbox: publish, publish again, and unpublish.
// records/sandbox_records.h draws the states. Each step writes the sandbox's record before it acts.
// If the write fails, the record stays as it was.
//
// The caller holds the sandbox's entry, which is open. Thread-safe for different entries. A failure
// of a publish that is DEADLINE_EXCEEDED or INTERNAL has an unknown outcome: the volume stays
// "publishing", because the kernel may still mount it.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "base/status.h"
#include "crust/records/sandbox_records.h"
#include "crust/sandbox_table.h"
#include "platform/mounts/mount_paths.h"

namespace berth::crust {

class VolumeSteps {
 public:
  using Entry = SandboxTable::Entry;

  // All are borrowed and must outlive this. `free_within`: how long a device may stay busy after
  // its last mount is gone. `stopping`: if it is true, walks that give files to groups end.
  VolumeSteps(SandboxTable& sandboxes, const SandboxRecords& records,
              std::chrono::milliseconds free_within, const std::atomic<bool>& stopping)
      : sandboxes_(sandboxes), records_(records), free_within_(free_within), stopping_(stopping) {}

  // Publishes `volume`, which gets a name that is free in the sandbox. OK if it is published
  // already. If it was recorded with another path of its device (/dev/sdb instead of
  // /dev/disk/by-id/x), the new path is recorded, because the node agent will name the volume by
  // it. A label that its plan leaves open is the sandbox's (RelabelFiles). FAILED_PRECONDITION: a
  // volume with another plan is published at its target, or the volume
  // is being unpublished. RESOURCE_EXHAUSTED: the sandbox has too many volumes.
  base::Status PublishVolume(Entry& entry, VolumeRecord volume);
  // `volume` is in the entry's record, in any state but "unpublishing". If it is mounted already,
  // it stays as it is.
  base::Status PublishAgain(Entry& entry, VolumeRecord& volume);
  // Unmounts the volume at `target`, waits until its device is free, and removes it
  // from the record. OK if no volume is recorded there. It does not wait for a device that another
  // sandbox or target uses. `free_within` is shorter than the handler's for a caller who comes
  // again. FAILED_PRECONDITION: the device stays in use.
  base::Status UnpublishVolume(Entry& entry, const platform::TargetPath& target,
                               std::optional<std::chrono::milliseconds> free_within = std::nullopt);

 private:
  // Applies `change` to the record and writes it. If the write fails, the volumes of the record
  // stay as before.
  base::Status ChangeRecord(SandboxRecord& record, const std::function<void()>& change);
  base::Status SetState(Entry& entry, VolumeRecord& volume, VolumeState state);
  // Records another path of the volume's device. Does nothing if the path is the recorded one.
  base::Status RecordOtherPath(Entry& entry, VolumeRecord& volume, VolumeRecord other);
  base::Status MountVolume(Entry& entry, VolumeRecord& volume, bool absent);
  // Waits until the unmounted volume's device is free, and removes the volume from the record.
  base::Status ForgetVolume(Entry& entry, VolumeRecord& volume,
                            std::chrono::milliseconds free_within);
  base::Status WaitUntilFree(const SandboxRecord& record, const VolumeRecord& volume,
                             std::chrono::milliseconds free_within);

  SandboxTable& sandboxes_;
  const SandboxRecords& records_;
  const std::chrono::milliseconds free_within_;
  const std::atomic<bool>& stopping_;
};

}  // namespace berth::crust
