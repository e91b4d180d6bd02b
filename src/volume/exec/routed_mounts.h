// Mounts that utilities make, each in the pod that is registered for its plugin or on the host.
// Each is undone the way it was made.
//
//   Mount:   record (target, plugin, way) ─▶ the utility runs ─▶ the mount table shows it
//   Unmount: record ─▶ the same container runs umount ─▶ the table shows it no more ─▶ record gone
//                 └──▶ that container is gone: a lazy unmount on the host, and an event
//
// A record without a mount is harmless, and a mount without a record is unmounted on the host: so
// both calls can be repeated after a crash between any two steps. A utility that outlived the agent
// which started it is killed first, because it would mount later, over another mount or where
// nobody would unmount it. A mount that the host does not see stays in its pod: it is unmounted
// there again, and the error says so. Thread-safe for different targets.
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

  // Takes over the records of an earlier process. Call it first.
  base::Status TakeRecords() { return records_.LoadRecords(); }

  base::Status Mount(const HelperMount& mount) override;
  base::Status Unmount(std::string_view plugin, std::string_view target) override;

 private:
  base::StatusOr<bool> IsMounted(std::string_view target);
  base::Status MountRecorded(const HelperMount& mount, const std::optional<PodContainer>& container,
                             bool& gone);
  base::Status MountInPod(const HelperMount& mount, const MountRecord& record, bool& gone);
  // Records that the utility has ended and the mount stands.
  base::Status NoteEnd(MountRecord record);
  // For a target that is not mounted: ends the run that was to mount there, and unmounts what it
  // has mounted meanwhile.
  base::Status EndEarlierRun(const MountRecord& record);
  base::Status UnmountInPod(const MountRecord& record, const PodContainer& container);
  base::Status UmountIn(const PodContainer& container, const std::string& target, bool& gone);
  void TellOfGonePod(const MountRecord& record, const PodContainer& container);

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
