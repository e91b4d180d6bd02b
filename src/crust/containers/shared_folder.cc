#include "crust/containers/shared_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/ipc/crust_call.h"
#include "base/log.h"
#include "crust/mount_namespace.h"
#include "platform/errno.h"
#include "platform/processes/child.h"

namespace berth::crust {
namespace {

using base::Error;
using base::Status;
using base::StatusCode;
using base::StatusOr;
using base::UniqueFd;

// A source may be on a file system that does not answer.
constexpr std::chrono::seconds kShareTime{20};

// Runs in a child process. Returns a descriptor of the new namespace, or a negative errno.
int MakeSharedNamespace(const char* folder) {
  if (const int error = EnterNewNamespace(); error != 0) return -error;
  if (mount(nullptr, "/", nullptr, MS_REC | MS_SLAVE, nullptr) != 0 ||
      mount("berth", folder, "tmpfs", MS_NOSUID | MS_NODEV, "size=1m,mode=0700") != 0 ||
      mount(nullptr, folder, nullptr, MS_SHARED, nullptr) != 0) {
    return -errno;
  }
  const int space = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
  return space < 0 ? -errno : space;
}

// Runs in a child process, on the host's mounts. Returns a copy of those at `source` that takes no
// part in propagation, or a negative errno.
int CopyMounts(const char* source) {
  const int tree = open_tree(AT_FDCWD, source, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
  if (tree < 0) return -errno;
  mount_attr attributes{};
  attributes.propagation = MS_PRIVATE;
  if (mount_setattr(tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &attributes, sizeof(attributes)) != 0) {
    return -errno;
  }
  return tree;
}

// Runs in a child process in the namespace. Makes a place for `tree`, and says in `taken` whether
// something is mounted there already. Returns 0 or an errno.
int MakePlace(int tree, const char* container, const char* place, bool& taken) {
  struct stat source{}, above{}, below{};
  if (fstat(tree, &source) != 0) return errno;
  if (mkdir(container, 0700) != 0 && errno != EEXIST) return errno;
  if (S_ISDIR(source.st_mode)) {
    if (mkdir(place, 0700) != 0 && errno != EEXIST) return errno;
  } else {
    const int file = open(place, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file < 0 && errno != EROFS && errno != EACCES) return errno;
    if (file >= 0) close(file);
  }
  if (lstat(container, &above) != 0 || lstat(place, &below) != 0) return errno;
  taken = above.st_dev != below.st_dev;
  return 0;
}

int RemovePlace(const char* place) {
  while (umount2(place, MNT_DETACH | UMOUNT_NOFOLLOW) == 0) continue;
  if (errno != EINVAL && errno != ENOENT) return errno;
  if (rmdir(place) == 0 || errno == ENOENT) return 0;
  if (errno != ENOTDIR) return errno;
  return unlink(place) == 0 ? 0 : errno;
}

}  // namespace

StatusOr<SharedFolder> SharedFolder::Open(platform::Mounter& mounter, const std::string& pin,
                                          const std::string& folder) {
  if (UniqueFd space = OpenPin(pin); space.valid()) return SharedFolder(std::move(space), folder);
  ASSIGN_OR_RETURN(
      platform::OpenedInChild made,
      platform::OpenInChild("make the folder that is shared with the guest", kShareTime,
                            [folder] { return MakeSharedNamespace(folder.c_str()); }));
  if (!made.fd.valid()) {
    return platform::ErrnoError(made.error, "make the folder that is shared with the guest");
  }
  RETURN_IF_ERROR_WITH(PinNamespace(mounter, made.fd, pin), "keep the mount namespace");
  return SharedFolder(std::move(made.fd), folder);
}

Status SharedFolder::Add(const std::string& container, const std::string& name,
                         const std::string& source) const {
  if (!base::ipc::crust::IsId(container) || !base::ipc::crust::IsId(name)) {
    return Error(StatusCode::kInvalidArgument, "{} of {} is no name in the shared folder",
                 base::Quote(name), base::Quote(container));
  }
  const std::string parent = folder_ + "/" + container;
  const std::string place = parent + "/" + name;
  const Status added = platform::RunInChild(
      "share " + base::Quote(source) + " with the guest", kShareTime,
      [space = space_.get(), parent, place, source] {
        const int tree = CopyMounts(source.c_str());
        if (tree < 0) return -tree;
        if (setns(space, CLONE_NEWNS) != 0) return errno;
        bool taken = false;
        if (const int error = MakePlace(tree, parent.c_str(), place.c_str(), taken); error != 0) {
          return error;
        }
        if (taken) return 0;
        return move_mount(tree, "", AT_FDCWD, place.c_str(), MOVE_MOUNT_F_EMPTY_PATH) == 0 ? 0
                                                                                           : errno;
      },
      {space_.get()});
  return added;
}

Status SharedFolder::Remove(const std::string& container) const {
  if (!base::ipc::crust::IsId(container)) {
    return Error(StatusCode::kInvalidArgument, "{} is no name in the shared folder",
                 base::Quote(container));
  }
  const std::string parent = folder_ + "/" + container;
  return platform::RunInChild("take a container out of the folder that is shared with the guest",
                              kShareTime,
                              [space = space_.get(), parent, root = parent + "/" + RootName()] {
                                if (setns(space, CLONE_NEWNS) != 0) return errno;
                                if (const int error = RemovePlace(root.c_str()); error != 0)
                                  return error;
                                char place[512];
                                for (size_t i = 0; i < base::ipc::crust::kMostMounts; ++i) {
                                  if (snprintf(place, sizeof(place), "%s/m%zu", parent.c_str(),
                                               i) >= static_cast<int>(sizeof(place))) {
                                    return ENAMETOOLONG;
                                  }
                                  if (const int error = RemovePlace(place); error != 0)
                                    return error;
                                }
                                return rmdir(parent.c_str()) == 0 || errno == ENOENT ? 0 : errno;
                              },
                              {space_.get()});
}

}  // namespace berth::crust
