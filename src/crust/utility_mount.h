// Mounts shares by their mount utilities if the kernel cannot mount them by itself. These are FUSE
// file systems whose server is a process of this host (mount.glusterfs). The server gets its own
// mount namespace.
//
//   a copy of the host's namespace, its slave, without the kubelet's mounts; pinned in `folder`
//     ─▶ mount.TYPE SOURCE FOLDER/at -o OPTIONS, there
//     ─▶ a detached copy of what it mounted, for the sandbox; there it is unmounted
//     ─▶ unpinned: the namespace is the server's alone, and ends with it
//
// So the host never sees the mount, and the server keeps no mount of the host busy. The server ends
// when the sandbox's mount ends. Thread-safe.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "base/unique_fd.h"
#include "crust/mount_plan.h"
#include "platform/mounts/mounter.h"
#include "platform/processes/exec.h"

namespace berth::crust {

class UtilityMounts {
 public:
  // Only this class uses `folder`, which is made if it is missing. Unmounts what an earlier process
  // left when it died. Borrows `mounter` and `exec`, which must outlive the result.
  static base::StatusOr<UtilityMounts> Open(platform::Mounter& mounter, platform::Exec& exec,
                                            std::string folder, std::string kubelet_folder);

  // Returns a descriptor of the mount, which is in no namespace; closing the descriptor unmounts
  // it. FAILED_PRECONDITION: something is mounted on the host at the target path. INTERNAL: the
  // utility failed; the message has its output. NOT_FOUND: the utility succeeded, but mounted
  // nothing. DEADLINE_EXCEEDED: the utility took more than two minutes and was ended.
  base::StatusOr<base::UniqueFd> MountShare(const MountPlan& plan,
                                            const MountFileSystem& mount) const;

 private:
  UtilityMounts(platform::Mounter& mounter, platform::Exec& exec, std::string folder,
                std::string kubelet_folder)
      : mounter_(mounter),
        exec_(exec),
        folder_(std::move(folder)),
        kubelet_folder_(std::move(kubelet_folder)) {}

  std::string Target() const { return folder_ + "/at"; }
  // Makes a copy of the host's namespace without the mounts below the kubelet's folder. `table` is
  // the host's mount table.
  base::StatusOr<base::UniqueFd> MakeNamespace(
      const std::vector<platform::MountEntry>& table) const;
  // Pins the namespace `space` at `pin`, runs the utility in it, and returns a detached copy of the
  // mount.
  base::StatusOr<base::UniqueFd> MountInNamespace(const std::string& pin,
                                                  const base::UniqueFd& space,
                                                  const MountPlan& plan,
                                                  const MountFileSystem& mount) const;
  // Unmounts the target in the pinned namespace and removes the pin.
  base::Status ReleasePin(const std::string& pin) const;

  platform::Mounter& mounter_;
  platform::Exec& exec_;
  std::string folder_;
  std::string kubelet_folder_;
};

}  // namespace berth::crust
