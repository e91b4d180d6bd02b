// Makes mounts by utilities, each in the pod that is registered for its plugin or on the host. Each
// mount is undone in the way in which it was made.
//
//   Mount:   record (target, plugin, way) ─▶ the utility runs ─▶ the mount table shows it
//   Unmount: record ─▶ the same container runs umount ─▶ the table shows it no more ─▶ record gone
//                 └──▶ that container is gone: a lazy unmount on the host, and an event
//
// A record without a mount is harmless, and a mount without a record is unmounted on the host. So
// both calls can be repeated after a crash between any two steps. A utility that still runs after
// its agent has ended is killed first, because it could mount later, over another mount or after
// the unmount. If the host does not see a mount that was made in a pod, the mount is undone there,
// and the error says so. Thread-safe for different targets.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "volume/exec/container_choice.h"
#include "volume/exec/container_exec.h"
#include "volume/exec/mount_records.h"
#include "volume/helper_mounts.h"
#include "volume/utilities.h"

namespace berth::volume {

class RoutedMounts : public HelperMounts {
 public:
  // All are borrowed; `host` mounts on this host.
  RoutedMounts(const UtilitySurroundings& around, rpc::CriClient& runtime, ContainerChoice& choice,
               ContainerExec& containers, HelperMounts& host);

  // Reads the records of an earlier process. Call it first.
  base::Status LoadRecords() { return records_.LoadRecords(); }

  base::Status Mount(const HelperMount& mount) override;
  base::Status Unmount(std::string_view plugin, const platform::MountPoint& mount_point) override;

 private:
  base::StatusOr<bool> IsMounted(std::string_view target);
  base::Status MountRecorded(const HelperMount& mount, const std::optional<PodContainer>& container,
                             bool& gone);
  base::Status MountInPod(const HelperMount& mount, const MountRecord& record, bool& gone);
  // Records that the utility has ended and the mount stands.
  base::Status NoteEnd(MountRecord record);
  // For a target that is not mounted: ends an earlier run that may still mount there, and undoes
  // its mount if it has made one meanwhile.
  base::Status EndEarlierRun(const MountRecord& record);
  base::Status UnmountInPod(const MountRecord& record, const PodContainer& container);
  base::Status UnmountInContainer(const PodContainer& container, const std::string& target,
                                  bool& gone);
  void ReportGonePod(const MountRecord& record, const PodContainer& container);

  platform::Mounter& mounter_;
  base::EventSink& events_;
  const base::ObjectReference node_;
  rpc::CriClient& runtime_;
  ContainerChoice& choice_;
  ContainerExec& containers_;
  HelperMounts& host_;
  MountRecords records_;
};

}  // namespace berth::volume
