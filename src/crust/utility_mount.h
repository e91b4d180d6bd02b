// Mounts shares that the kernel cannot mount by itself, by their mount utilities: FUSE file
// systems, whose server is a process of this host (mount.glusterfs), in a mount namespace of that
// process's own.
//
//   a copy of the host's namespace, its slave, without the kubelet's mounts; pinned in `folder`
//     ─▶ mount.TYPE SOURCE FOLDER/at -o OPTIONS, there
//     ─▶ a detached copy of what it mounted, for the sandbox; there it is unmounted
//     ─▶ unpinned: the namespace is the server's alone, and ends with it
//
// So the host sees no mount, not even meanwhile, and the server keeps none of the host's. It ends
// when the sandbox's mount goes. Thread-safe.
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
  // `folder` is this class's own, made if missing. Borrows `mounter` and `exec`. What a
  // predecessor's death cut short is unmounted.
  static base::StatusOr<UtilityMounts> Open(platform::Mounter& mounter, platform::Exec& exec,
                                            std::string folder, std::string kubelet_folder);

  // The mount, in no namespace; closing it unmounts. FAILED_PRECONDITION: something is mounted on
  // the host where the volume would be; INTERNAL: what the utility said; DEADLINE_EXCEEDED: it took
  // over two minutes, and was ended.
  base::StatusOr<base::UniqueFd> Mount(const MountPlan& plan, const MountFileSystem& mount) const;

 private:
  UtilityMounts(platform::Mounter& mounter, platform::Exec& exec, std::string folder,
                std::string kubelet_folder)
      : mounter_(mounter),
        exec_(exec),
        folder_(std::move(folder)),
        kubelet_folder_(std::move(kubelet_folder)) {}

  std::string Target() const { return folder_ + "/at"; }
  // `table`: the host's.
  base::StatusOr<base::UniqueFd> MakeNamespace(
      const std::vector<platform::MountEntry>& table) const;
  base::StatusOr<base::UniqueFd> MountIn(const std::string& pin, const base::UniqueFd& space,
                                         const MountPlan& plan, const MountFileSystem& mount) const;
  // Unmounts what is at the target in the pinned namespace, and lets that go.
  base::Status Leave(const std::string& pin) const;

  platform::Mounter& mounter_;
  platform::Exec& exec_;
  std::string folder_;
  std::string kubelet_folder_;
};

}  // namespace berth::crust
