// A CSI driver that keeps all rules of the specification. WrongDriver uses it and breaks rules.
//
// A volume is a folder, and a snapshot is a copy of one. Staging binds the folder, and publishing
// binds the staging path. rpc::FakeCsiState holds the state. A journal records the calls that
// changed it; a new process repeats them to restore the state.
//
//   FOLDER/journal        "METHOD BASE64(request)", a line a call
//   FOLDER/volumes/ID     a volume's content
//   FOLDER/snapshots/ID   a snapshot's content
//   FOLDER/fuse           switches of the FUSE file systems, if these stage the volumes
//   FOLDER/attached/ID    the nodes that a volume is attached to, one a line; no file if none
//
// Thread-safe: one call at a time.
#pragma once

#include <fstream>
#include <memory>
#include <set>
#include <string>

#include "base/mutex.h"
#include "base/status.h"
#include "platform/mounts/mounter.h"
#include "proto/csi.pb.h"
#include "rpc/fake_csi_state.h"

namespace berth::doubles {

class WorkingDriver {
 public:
  // Volumes can be attached to `nodes`, and to no others.
  WorkingDriver(rpc::FakeCsiState::Options options, std::set<std::string> nodes,
                std::string folder);

  // Each volume is staged by a FUSE file system of its own, which `program` (fuse_double) serves,
  // instead of by a bind mount. Empty: by a bind mount.
  void StageByFuse(std::string program) { fuse_program_ = std::move(program); }

  // Every volume is `share`. If the runtime of a sandbox offers to mount it, the driver publishes
  // nothing on this node.
  void DeferShare(csi::v1::FileSystemMountInfo share) { share_ = std::move(share); }

  // The calls for which FakeCsiState alone does the work.
  template <typename Request, typename Response>
  base::Status Handle(const Request& request, Response& response) {
    base::MutexLock lock(mutex_);
    return Journalled(request, state_.Handle(request, response));
  }
#define BERTH_HANDLE(rpc) \
  base::Status Handle(const csi::v1::rpc##Request& request, csi::v1::rpc##Response& response)
  BERTH_HANDLE(GetPluginCapabilities);
  BERTH_HANDLE(CreateVolume);
  BERTH_HANDLE(DeleteVolume);
  BERTH_HANDLE(ControllerPublishVolume);
  BERTH_HANDLE(ControllerUnpublishVolume);
  BERTH_HANDLE(ValidateVolumeCapabilities);
  BERTH_HANDLE(ListVolumes);
  BERTH_HANDLE(CreateSnapshot);
  BERTH_HANDLE(DeleteSnapshot);
  BERTH_HANDLE(NodeStageVolume);
  BERTH_HANDLE(NodeUnstageVolume);
  BERTH_HANDLE(NodePublishVolume);
  BERTH_HANDLE(NodeUnpublishVolume);
  BERTH_HANDLE(NodeGetVolumeStats);
  BERTH_HANDLE(NodeExpandVolume);
#undef BERTH_HANDLE

  // WrongDriver uses these to break the rules.
  rpc::FakeCsiState& state() { return state_; }
  std::string VolumeFolder(const std::string& id) const { return folder_ + "/volumes/" + id; }
  // Makes `target` and binds `source` onto it, also over a mount that is there already.
  base::Status Bind(const std::string& source, const std::string& target, bool read_only);
  base::Status Unmount(const std::string& path) { return mounter_->Unmount(path); }

 private:
  base::Status Journalled(const google::protobuf::Message& request, base::Status status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Replay();
  base::StatusOr<rpc::FakeCsiState::Volume> Existing(const std::string& id) const;
  // OK if the volume is staged or published at `path`.
  base::Status CheckAt(const std::string& id, const std::string& path) const;
  std::string SnapshotFolder(const std::string& id) const { return folder_ + "/snapshots/" + id; }
  base::StatusOr<bool> IsMounted(const std::string& path);
  base::Status MountFuse(const std::string& folder, const std::string& target);
  base::Status Copy(const std::string& from, const std::string& to);
  // Writes FOLDER/attached/ID, so that tests can see the nodes.
  base::Status TellAttached(const std::string& id);

  const std::set<std::string> nodes_;
  const std::string folder_;
  std::string fuse_program_;                           // set once
  std::optional<csi::v1::FileSystemMountInfo> share_;  // set once
  const std::unique_ptr<platform::Mounter> mounter_ = platform::NewMounter();
  base::Mutex mutex_;
  rpc::FakeCsiState state_;
  std::ofstream journal_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace berth::doubles
