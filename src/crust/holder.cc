#include "crust/holder.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>

#include "base/fault.h"
#include "base/log.h"
#include "base/text.h"
#include "crust/mount_namespace.h"
#include "platform/errno.h"
#include "platform/mounts/beneath.h"
#include "platform/processes/child.h"

namespace berth::crust {
namespace {

using base::Error;
using base::Quote;
using base::Status;
using base::StatusCode;
using base::StatusOr;
using base::UniqueFd;

constexpr std::chrono::seconds kHolderTimeout(10);
constexpr std::chrono::seconds kStateTimeout(5);

// Runs in a child process. Makes a namespace that contains only a tmpfs, and returns its descriptor
// or a negative errno. `folder` is any folder; the tmpfs is mounted over it in the new namespace.
int MakeEmptyNamespace(const char* folder) {
  if (const int error = EnterNewNamespace(); error != 0) return -error;
  // All mounts are made private first, because nothing that is done here may reach the host.
  if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return -errno;
  const int space = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
  if (space < 0) return -errno;
  if (mount("berth", folder, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "size=1m,mode=0700") != 0 ||
      chdir(folder) != 0 || syscall(SYS_pivot_root, ".", ".") != 0 ||
      umount2(".", MNT_DETACH) != 0) {
    return -errno;
  }
  return space;
}

std::string PathOf(const std::string& name) { return "/" + name; }

}  // namespace

StatusOr<Holder> Holder::Open(platform::Mounter& mounter, const std::string& pin) {
  if (UniqueFd space = OpenPin(pin); space.valid()) return Holder(std::move(space));
  const std::string folder(base::FolderOf(pin));
  RETURN_IF_ERROR(base::FaultPoint<"crust.holder.make">());
  ASSIGN_OR_RETURN(platform::OpenedInChild made,
                   platform::OpenInChild("make a mount namespace", kHolderTimeout,
                                         [folder] { return MakeEmptyNamespace(folder.c_str()); }));
  if (!made.fd.valid()) return platform::ErrnoError(made.error, "make an empty mount namespace");
  RETURN_IF_ERROR_WITH(PinNamespace(mounter, made.fd, pin), "keep the mount namespace");
  return Holder(std::move(made.fd));
}

Status Holder::PlaceMount(const UniqueFd& mount, const std::string& name) const {
  const std::string path = PathOf(name);
  RETURN_IF_ERROR(base::FaultPoint<"crust.place.before">());
  RETURN_IF_ERROR(platform::RunInChild(
      "place the volume in its sandbox", kHolderTimeout,
      [space = space_.get(), from = mount.get(), path] {
        if (setns(space, CLONE_NEWNS) != 0) return errno;
        if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return errno;
        return move_mount(from, "", AT_FDCWD, path.c_str(), MOVE_MOUNT_F_EMPTY_PATH) == 0 ? 0
                                                                                          : errno;
      },
      {space_.get(), mount.get()}));
  return base::FaultPoint<"crust.place.after">();
}

StatusOr<std::optional<dev_t>> Holder::FindMount(const std::string& name) const {
  const std::string path = PathOf(name);
  struct Found {
    bool mounted;
    dev_t device;
  };
  const auto find = [space = space_.get(), path](Found& found) {
    if (setns(space, CLONE_NEWNS) != 0) return errno;
    struct statx st = {};
    constexpr int kFlags = AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_STATX_DONT_SYNC;
    if (statx(AT_FDCWD, path.c_str(), kFlags, STATX_TYPE, &st) != 0) {
      return errno == ENOENT ? 0 : errno;
    }
    found.mounted = (st.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
    found.device = makedev(st.stx_dev_major, st.stx_dev_minor);
    return 0;
  };
  ASSIGN_OR_RETURN(const Found found, platform::AskChild<Found>("find the volume", kHolderTimeout,
                                                                find, {space_.get()}));
  return found.mounted ? std::optional(found.device) : std::nullopt;
}

Status Holder::RemoveMount(const std::string& name, std::chrono::milliseconds timeout,
                           std::shared_ptr<void> alive) const {
  const std::string path = PathOf(name);
  RETURN_IF_ERROR(base::FaultPoint<"crust.take.before">());
  RETURN_IF_ERROR(platform::RunInChild(
      "unmount the volume in its sandbox", timeout,
      [space = space_.get(), path, alive] {
        if (setns(space, CLONE_NEWNS) != 0) return errno;
        if (umount2(path.c_str(), UMOUNT_NOFOLLOW) != 0 && errno != EINVAL && errno != ENOENT) {
          return errno;
        }
        return rmdir(path.c_str()) == 0 || errno == ENOENT ? 0 : errno;
      },
      {space_.get()}));
  return base::FaultPoint<"crust.take.after">();
}

StatusOr<UniqueFd> Holder::OpenRoot(const std::string& name) const {
  const std::string path = PathOf(name);
  const auto open = [space = space_.get(), path] {
    if (setns(space, CLONE_NEWNS) != 0) return -errno;
    return OpenMountRoot(path.c_str());
  };
  ASSIGN_OR_RETURN(platform::OpenedInChild opened,
                   platform::OpenInChild("open the volume", kHolderTimeout, open, {space_.get()}));
  if (!opened.fd.valid()) return platform::ErrnoError(opened.error, "open the volume");
  return std::move(opened.fd);
}

StatusOr<UniqueFd> Holder::CloneMount(const std::string& name, const std::string& sub_path) const {
  const std::string path = PathOf(name);
  constexpr int kLost = EIDRM;  // an errno that none of these calls returns
  const auto open = [space = space_.get(), path, sub_path] {
    if (setns(space, CLONE_NEWNS) != 0) return -errno;
    int at = OpenMountRoot(path.c_str());
    if (at == -ENOENT) return -kLost;
    if (at >= 0 && !sub_path.empty()) at = platform::OpenBelow(at, sub_path.c_str(), O_PATH);
    if (at < 0) return at;
    const int tree = open_tree(at, "", AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    return tree < 0 ? -errno : tree;
  };
  ASSIGN_OR_RETURN(platform::OpenedInChild opened,
                   platform::OpenInChild("copy the volume's mount for a container", kHolderTimeout,
                                         open, {space_.get()}));
  if (opened.fd.valid()) return std::move(opened.fd);
  if (opened.error == kLost) {
    return Error(StatusCode::kFailedPrecondition, "the volume is not in its sandbox any more");
  }
  if (opened.error == EXDEV || opened.error == ELOOP) {
    return Error(StatusCode::kPermissionDenied,
                 "subPath {} leads out of its volume, or through a magic link", Quote(sub_path));
  }
  return platform::ErrnoError(opened.error, fmt::format("open subPath {}", Quote(sub_path)));
}

StatusOr<Holder::State> Holder::ReadState(const std::string& name,
                                          std::shared_ptr<void> alive) const {
  const std::string path = PathOf(name);
  const auto read = [space = space_.get(), path, alive](struct statfs& found) {
    if (setns(space, CLONE_NEWNS) != 0) return errno;
    const int root = OpenMountRoot(path.c_str());
    if (root < 0) return -root;
    return fstatfs(root, &found) == 0 ? 0 : errno;
  };
  ASSIGN_OR_RETURN(const struct statfs found,
                   platform::AskChild<struct statfs>("read the state of the volume", kStateTimeout,
                                                     read, {space_.get()}));
  return State{.usage = platform::UsageFrom(found), .read_only = (found.f_flags & ST_RDONLY) != 0};
}

Status Holder::SyncVolume(const std::string& name, std::shared_ptr<void> alive) const {
  const std::string path = PathOf(name);
  return platform::RunInChild("write the volume's root folder to the device", kStateTimeout,
                              [space = space_.get(), path, alive] {
                                if (setns(space, CLONE_NEWNS) != 0) return errno;
                                const int root = OpenMountRoot(path.c_str());
                                if (root < 0) return -root;
                                // A sync is needed, because a file system that was shut down after
                                // an error still reports its size; only a write shows that it is
                                // dead.
                                const int folder =
                                    openat(root, ".", O_RDONLY | O_CLOEXEC | O_NONBLOCK);
                                return folder < 0 || fsync(folder) != 0 ? errno : 0;
                              },
                              {space_.get()});
}

}  // namespace berth::crust
