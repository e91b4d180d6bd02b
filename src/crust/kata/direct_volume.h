// Kata's direct-assigned volumes: the files by which Kata learns that a bind mount of a container
// means a block device. It looks for them when it creates a container, by the source of each mount:
//
//   <run>/kata-containers/shared/direct-volumes/    0700
//     <base64url of the target path, padded>/       0700
//       mountInfo.json                              0600; written here
//       <sandbox id>                                empty; Kata makes it when a container of that
//                                                   sandbox gets the volume
//
// The folder is on a tmpfs, so nothing of it outlives a reboot. Thread-safe for different targets.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "crust/mount_plan.h"
#include "platform/mounts/mount_paths.h"
#include "rpc/cri_ids.h"

namespace berth::crust::kata {

// Returns what Kata is told of a volume: mountInfo.json. Of "ro" and "rw" only the last one is
// passed on, because Kata takes each "ro" for a volume that is only read. A group (fsGroup) is not
// passed on for such a volume, because Kata's agent would fail to change its files.
base::Json MakeMountInfo(const MountPlan& plan);

class DirectVolumes {
 public:
  // `folder`: <run>/kata-containers/shared/direct-volumes. It is made when the first volume is
  // written.
  explicit DirectVolumes(std::string folder) : folder_(std::move(folder)) {}

  // The longest target path whose base64 is no longer than the name of a file may be.
  static constexpr size_t kLongestTarget = 189;

  // Writes the volume's file whole, or leaves it if it has that content already.
  base::Status WriteVolume(const platform::TargetPath& target, const base::Json& info) const;
  // Whether there is a file for the target, whoever wrote it.
  base::StatusOr<bool> HasVolume(const platform::TargetPath& target) const;
  // Removes the file, and then its folder with the names of sandboxes. OK if there is none.
  base::Status RemoveVolume(const platform::TargetPath& target) const;
  // Returns the sandboxes of which some container has got the volume, also those that ended since.
  base::StatusOr<std::vector<rpc::SandboxId>> ListSandboxes(
      const platform::TargetPath& target) const;
  // Returns the target paths of all volumes that have a folder.
  base::StatusOr<std::vector<platform::TargetPath>> ListTargets() const;

 private:
  std::string Folder(const platform::TargetPath& target) const;

  const std::string folder_;
};

}  // namespace berth::crust::kata
