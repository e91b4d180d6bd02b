// Binds published volumes to paths of the host that a person chose, and takes them away again.
//
//   check the path ─▶ [mounting] ─▶ make the folder ─▶ bind ─▶ compare mount table ─▶ [mounted]
//
// [x] is a durable record, <state>/<uid>.json. There is no state for unmounting: what the record
// says is mounted is unmounted, and then the record is removed.
//
// Only a mount that the record recognises (file system and root within it, and the mount's id once
// it is known) is ever unmounted, and only an empty folder that no one else uses is mounted upon:
// the path is the host's. Not thread-safe for one HostMount; thread-safe for different ones.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "node/volumes/volume_records.h"
#include "platform/mounts/mounter.h"

namespace berth::node {

// A path that a volume may be mounted at: absolute, plain ("/a/b", no "." or ".." or "//"), no
// folder that belongs to the system, and nothing that holds or lies in `own_folder`, where this
// program keeps its mounts.
base::Status CheckHostPath(std::string_view path, std::string_view own_folder);

struct HostMountRecord {
  std::string uid;  // of the HostMount
  std::string key;  // "namespace/name"
  std::string path;
  bool read_only = false;
  bool made_folder = false;
  bool mounted = false;
  std::string boot_id;
  // The identity of the published volume, so that a mount is recognised although its making was
  // interrupted. The id of the mount at `path` is added once it is known (0 before).
  MountIdentity mount;
};

class HostMountTargets {
 public:
  // `mounter` outlives this.
  HostMountTargets(std::string folder, std::string own_folder, platform::Mounter& mounter)
      : folder_(std::move(folder)), own_folder_(std::move(own_folder)), mounter_(mounter) {}

  // Makes the folder and reads the records. Files that cannot be read are set aside, and named in
  // `damaged`.
  base::StatusOr<std::vector<HostMountRecord>> Open(std::vector<std::string>& damaged);

  // Mounts the volume published at `source` at record.path; OK if it is mounted already. Afterwards
  // `record` equals the durable record, also after a failure; its `boot_id` is empty if there is
  // none.
  base::Status Mount(HostMountRecord& record, const std::string& source);
  // True if the topmost mount at the path is the record's.
  base::StatusOr<bool> IsMounted(const HostMountRecord& record) const;
  // FAILED_PRECONDITION: it is busy, or something else is mounted on top.
  base::Status Unmount(const HostMountRecord& record);

 private:
  std::string File(const std::string& uid) const;
  base::Status Write(HostMountRecord& record);
  base::Status CheckFree(const HostMountRecord& record) const;
  base::Status Bind(HostMountRecord& record, const std::string& source);

  const std::string folder_;
  const std::string own_folder_;
  platform::Mounter& mounter_;
  std::string boot_id_;
};

}  // namespace berth::node
