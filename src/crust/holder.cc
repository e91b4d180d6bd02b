#include "crust/holder.h"

#include <fcntl.h>
#include <linux/nsfs.h>
#include <linux/openat2.h>
#include <sched.h>
#include <sys/ioctl.h>
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
#include "platform/child.h"
#include "platform/durable_file.h"
#include "platform/errno.h"
#include "platform/safe_path.h"

namespace berth::crust {
namespace {

using base::Error;
using base::Quote;
using base::Status;
using base::StatusCode;
using base::StatusOr;
using base::UniqueFd;

constexpr std::chrono::seconds kTimeout(10);
constexpr std::chrono::seconds kUnmountTimeout(60);  // what is not written yet is written
constexpr std::chrono::seconds kLookTimeout(5);

#ifndef NS_GET_MNTNS_ID
#define NS_GET_MNTNS_ID _IOR(NSIO, 0x5, uint64_t)
#endif

// Of the process's mount namespace; 0: the kernel does not tell it.
uint64_t NamespaceNumber() {
  const int space = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
  uint64_t number = 0;
  if (space < 0) return 0;
  if (ioctl(space, NS_GET_MNTNS_ID, &number) != 0) number = 0;
  close(space);
  return number;
}

// In a child: into a mount namespace of its own, or an errno. A namespace can be bound to a file
// only in one with a lower number, so that no two can keep each other. Since Linux 6.18 each CPU
// has numbers of its own to give, and a namespace that is made on another one than this process's
// was may get a lower one; on the CPU that gave this one's it does not.
int EnterNew() {
  const uint64_t from = NamespaceNumber();
  if (unshare(CLONE_NEWNS) != 0) return errno;
  if (from == 0 || NamespaceNumber() > from) return 0;
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return errno;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed)) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    if (sched_setaffinity(0, sizeof(one), &one) != 0) continue;  // it went offline
    if (unshare(CLONE_NEWNS) != 0) return errno;
    if (NamespaceNumber() > from) return 0;
  }
  return ELOOP;  // as the kernel would say of the bind
}

// In a child: a namespace that has nothing but a tmpfs, as a descriptor, or a negative errno.
// `folder` is any folder; in the new namespace it is mounted over.
int MakeEmpty(const char* folder) {
  if (const int error = EnterNew(); error != 0) return -error;
  // Nothing that is done here may reach the host.
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

// The namespace that is bound at `pin`; invalid: none is.
UniqueFd OpenPin(const std::string& pin) {
  UniqueFd space(open(pin.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (space.valid() && ioctl(space.get(), NS_GET_NSTYPE) != CLONE_NEWNS) space.Reset();
  return space;
}

// In a child: the root of what is mounted at `path`, or a negative errno; ENOENT where nothing is.
int OpenRoot(const char* path) {
  const int fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return -errno;
  struct statx found = {};
  if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &found) != 0) return -errno;
  if ((found.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0) return fd;
  close(fd);
  return -ENOENT;
}

int OpenBelow(int root, const char* path) {
  open_how how = {};
  how.flags = O_PATH | O_CLOEXEC;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
  constexpr int kTries = 128;  // EAGAIN: something was renamed meanwhile
  int fd = -1;
  for (int i = 0; i < kTries; ++i) {
    fd = static_cast<int>(syscall(SYS_openat2, root, path, &how, sizeof(how)));
    if (fd >= 0 || (errno != EAGAIN && errno != EINTR)) break;
  }
  return fd < 0 ? -errno : fd;
}

std::string PathOf(const std::string& name) { return "/" + name; }

}  // namespace

StatusOr<Holder> Holder::Open(platform::Mounter& mounter, const std::string& pin) {
  if (UniqueFd space = OpenPin(pin); space.valid()) return Holder(std::move(space));
  const std::string folder = pin.substr(0, pin.rfind('/'));
  RETURN_IF_ERROR(base::FaultPoint<"crust.holder.make">());
  ASSIGN_OR_RETURN(platform::OpenedInChild made,
                   platform::OpenInChild("make a mount namespace", kTimeout,
                                         [folder] { return MakeEmpty(folder.c_str()); }));
  if (!made.fd.valid()) return platform::ErrnoError(made.error, "make an empty mount namespace");
  const UniqueFd file(open(pin.c_str(), O_RDONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file.valid()) return platform::ErrnoError(errno, fmt::format("make {}", Quote(pin)));
  platform::MountRequest bind{.source = platform::ProcPath(made.fd), .target = pin};
  bind.options = {"bind"};
  RETURN_IF_ERROR_WITH(mounter.Mount(bind), "keep the mount namespace");
  return Holder(std::move(made.fd));
}

Status Holder::PreparePins(platform::Mounter& mounter, const std::string& folder) {
  ASSIGN_OR_RETURN(const auto table, mounter.List());
  if (platform::FindMount(table, folder) == nullptr) {
    platform::MountRequest bind{.source = folder, .target = folder};
    bind.options = {"bind"};
    RETURN_IF_ERROR(mounter.Mount(bind));
  }
  platform::MountRequest apart{.target = folder};
  apart.options = {"private"};
  return mounter.Mount(apart);
}

Status Holder::RemoveEmptyPins(const std::string& folder) {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, platform::ListFolder(folder));
  for (const std::string& name : names) {
    const std::string pin = folder + "/" + name;
    if (OpenPin(pin).valid()) continue;
    if (unlink(pin.c_str()) != 0 && errno != ENOENT) {
      return platform::ErrnoError(errno, fmt::format("remove {}", Quote(pin)));
    }
  }
  return base::OkStatus();
}

Status Holder::Remove(platform::Mounter& mounter, const std::string& pin) {
  if (OpenPin(pin).valid()) RETURN_IF_ERROR(mounter.UnmountLazy(pin));
  if (unlink(pin.c_str()) != 0 && errno != ENOENT) {
    return platform::ErrnoError(errno, fmt::format("remove {}", Quote(pin)));
  }
  return base::OkStatus();
}

Status Holder::Place(const UniqueFd& mount, const std::string& name) const {
  const std::string path = PathOf(name);
  RETURN_IF_ERROR(base::FaultPoint<"crust.place.before">());
  RETURN_IF_ERROR(platform::RunInChild(
      "put the volume into its sandbox", kTimeout,
      [space = space_.get(), from = mount.get(), path] {
        if (setns(space, CLONE_NEWNS) != 0) return errno;
        if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return errno;
        return move_mount(from, "", AT_FDCWD, path.c_str(), MOVE_MOUNT_F_EMPTY_PATH) == 0 ? 0
                                                                                          : errno;
      }));
  return base::FaultPoint<"crust.place.after">();
}

StatusOr<std::optional<dev_t>> Holder::Find(const std::string& name) const {
  const std::string path = PathOf(name);
  struct Found {
    bool mounted;
    dev_t device;
  };
  const auto look = [space = space_.get(), path](Found& found) {
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
  ASSIGN_OR_RETURN(const Found found,
                   platform::AskChild<Found>("look for the volume", kTimeout, look));
  return found.mounted ? std::optional(found.device) : std::nullopt;
}

Status Holder::Take(const std::string& name) const {
  const std::string path = PathOf(name);
  RETURN_IF_ERROR(base::FaultPoint<"crust.take.before">());
  RETURN_IF_ERROR(platform::RunInChild(
      "take the volume out of its sandbox", kUnmountTimeout, [space = space_.get(), path] {
        if (setns(space, CLONE_NEWNS) != 0) return errno;
        if (umount2(path.c_str(), UMOUNT_NOFOLLOW) != 0 && errno != EINVAL && errno != ENOENT) {
          return errno;
        }
        return rmdir(path.c_str()) == 0 || errno == ENOENT ? 0 : errno;
      }));
  return base::FaultPoint<"crust.take.after">();
}

StatusOr<UniqueFd> Holder::Root(const std::string& name) const {
  const std::string path = PathOf(name);
  ASSIGN_OR_RETURN(platform::OpenedInChild opened,
                   platform::OpenInChild("open the volume", kTimeout, [space = space_.get(), path] {
                     if (setns(space, CLONE_NEWNS) != 0) return -errno;
                     return OpenRoot(path.c_str());
                   }));
  if (!opened.fd.valid()) return platform::ErrnoError(opened.error, "open the volume");
  return std::move(opened.fd);
}

StatusOr<UniqueFd> Holder::Clone(const std::string& name, const std::string& sub_path) const {
  const std::string path = PathOf(name);
  constexpr int kLost = EIDRM;  // none of these calls fails so
  const auto open = [space = space_.get(), path, sub_path] {
    if (setns(space, CLONE_NEWNS) != 0) return -errno;
    int at = OpenRoot(path.c_str());
    if (at == -ENOENT) return -kLost;
    if (at >= 0 && !sub_path.empty()) at = OpenBelow(at, sub_path.c_str());
    if (at < 0) return at;
    const int tree = open_tree(at, "", AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    return tree < 0 ? -errno : tree;
  };
  ASSIGN_OR_RETURN(platform::OpenedInChild opened,
                   platform::OpenInChild("take the volume for a container", kTimeout, open));
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

StatusOr<Holder::Health> Holder::Look(const std::string& name) const {
  const std::string path = PathOf(name);
  struct Found {
    struct statfs fs;
    int sync_error;
  };
  const auto look = [space = space_.get(), path](Found& found) {
    if (setns(space, CLONE_NEWNS) != 0) return errno;
    const int root = OpenRoot(path.c_str());
    if (root < 0) return -root;
    if (fstatfs(root, &found.fs) != 0) return errno;
    if ((found.fs.f_flags & ST_RDONLY) != 0) return 0;
    // A file system that was shut down after an error still tells its size; that nothing can
    // be written any more is seen only by writing.
    const int folder = openat(root, ".", O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (folder < 0 || fsync(folder) != 0) found.sync_error = errno;
    return 0;
  };
  ASSIGN_OR_RETURN(const Found found,
                   platform::AskChild<Found>("look at the volume", kLookTimeout, look));
  Health health{.usage = platform::UsageFrom(found.fs),
                .read_only = (found.fs.f_flags & ST_RDONLY) != 0,
                .sync_error = found.sync_error};
  return health;
}

}  // namespace berth::crust
