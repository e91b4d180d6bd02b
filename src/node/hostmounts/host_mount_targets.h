// Bind-mounts published volumes at paths of the host that a person has chosen, and unmounts them.
//
//   check the path ─▶ [mounting] ─▶ make the folder ─▶ bind ─▶ compare mount table ─▶ [mounted]
//
// [x] is a durable record, <state>/<SHA-256 of the uid>.json. There is no state for unmounting: the
// mount that the record describes is unmounted, and then the record is removed.
//
// The path belongs to the host. So only an empty folder on which nothing is mounted is used, and
// only the mount that the record identifies (by file system, root within it, and the mount's id
// once it is known) is unmounted. Not thread-safe for one HostMount; thread-safe for different
// ones.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "node/volumes/volume_records.h"
#include "platform/files/record_files.h"
#include "platform/mounts/mounter.h"

namespace berth::node {

// Checks that a volume may be mounted at `path`. INVALID_ARGUMENT: it is not absolute and plain
// ("/a/b", no "." or ".." or "//"), belongs to the system, or is in or above `own_folder`, where
// this program keeps its mounts.
base::Status CheckHostPath(std::string_view path, std::string_view own_folder);

struct HostMountRecord {
  std::string uid;  // of the HostMount
  std::string key;  // "namespace/name"
  std::string path;
  bool read_only = false;
  bool made_folder = false;
  bool mounted = false;
  std::string boot_id;
  // The identity of the published volume, by which the mount at `path` is recognised, also after a
  // crash during the bind. Its id is the id of the mount at `path`, and 0 until that is known.
  MountIdentity mount;
};

class HostMountTargets {
 public:
  // `mounter` outlives this.
  HostMountTargets(std::string folder, std::string own_folder, platform::Mounter& mounter)
      : folder_(std::move(folder)), own_folder_(std::move(own_folder)), mounter_(mounter) {}

  // Makes the folder and reads the records. Call it before the other methods. Damaged records are
  // set aside.
  base::StatusOr<platform::LoadedRecords<HostMountRecord>> Open();

  // Mounts the volume published at `source` at record.path; OK if it is mounted already. Afterwards
  // `record` equals the durable record, also after a failure; its `boot_id` is empty if there is
  // none. INVALID_ARGUMENT: CheckHostPath refuses the path; FAILED_PRECONDITION: the path is a
  // symlink, not empty, or has another mount; ABORTED: the folder was renamed meanwhile.
  base::Status Mount(HostMountRecord& record, const std::string& source);
  // True if the topmost mount at the path is the one of the record.
  base::StatusOr<bool> IsMounted(const HostMountRecord& record) const;
  // Unmounts record.path, removes the folder if Mount made it and it is empty, and removes the
  // record. OK if it is not mounted. FAILED_PRECONDITION: it is busy, or something else is mounted
  // on top of it.
  base::Status Unmount(const HostMountRecord& record);

 private:
  static std::string RecordName(const std::string& uid);
  std::string RecordPath(const std::string& uid) const;
  base::Status WriteRecord(HostMountRecord& record);
  base::Status CheckFree(const HostMountRecord& record) const;
  base::Status BindVolume(HostMountRecord& record, const std::string& source);

  const std::string folder_;
  const std::string own_folder_;
  platform::Mounter& mounter_;
  std::string boot_id_;
};

}  // namespace berth::node
