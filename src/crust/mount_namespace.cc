#include "crust/mount_namespace.h"

#include <fcntl.h>
#include <linux/nsfs.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/log.h"
#include "platform/errno.h"
#include "platform/files/durable_file.h"
#include "platform/mounts/safe_path.h"

namespace berth::crust {

using base::Quote;
using base::Status;
using base::StatusOr;
using base::UniqueFd;

namespace {

#ifndef NS_GET_MNTNS_ID
#define NS_GET_MNTNS_ID _IOR(NSIO, 0x5, uint64_t)
#endif

// Returns the sequence number of the process's mount namespace; 0: the kernel does not report it.
uint64_t ReadNamespaceNumber() {
  const int space = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
  uint64_t number = 0;
  if (space < 0) return 0;
  if (ioctl(space, NS_GET_MNTNS_ID, &number) != 0) number = 0;
  close(space);
  return number;
}

}  // namespace

// The kernel lets a namespace be bound to a file only in a namespace with a lower number, because
// two namespaces must not keep each other alive. Since Linux 6.18 each CPU gives out its own
// numbers, so a new namespace may get a lower number than this process's. On the CPU that gave this
// process's number it gets a higher one, so the loop tries the CPUs.
int EnterNewNamespace() {
  const uint64_t from = ReadNamespaceNumber();
  if (unshare(CLONE_NEWNS) != 0) return errno;
  if (from == 0 || ReadNamespaceNumber() > from) return 0;
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return errno;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed)) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    if (sched_setaffinity(0, sizeof(one), &one) != 0) continue;  // it went offline
    if (unshare(CLONE_NEWNS) != 0) return errno;
    if (ReadNamespaceNumber() > from) return 0;
  }
  return ELOOP;  // the error that the bind would give
}

int OpenMountRoot(const char* path) {
  const int fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return -errno;
  struct statx found = {};
  if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &found) != 0) return -errno;
  if ((found.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0) return fd;
  close(fd);
  return -ENOENT;
}

Status PinNamespace(platform::Mounter& mounter, const UniqueFd& space, const std::string& pin) {
  const UniqueFd file(open(pin.c_str(), O_RDONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file.valid()) return platform::ErrnoError(errno, fmt::format("make {}", Quote(pin)));
  platform::MountRequest bind{.source = platform::ProcPath(space), .target = pin};
  bind.options = {"bind"};
  return mounter.Mount(bind);
}

UniqueFd OpenPin(const std::string& pin) {
  UniqueFd space(open(pin.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (space.valid() && ioctl(space.get(), NS_GET_NSTYPE) != CLONE_NEWNS) space.Reset();
  return space;
}

Status PreparePins(platform::Mounter& mounter, const std::string& folder) {
  ASSIGN_OR_RETURN(const auto table, mounter.List());
  if (platform::FindMount(table, folder) == nullptr) {
    platform::MountRequest bind{.source = folder, .target = folder};
    bind.options = {"bind"};
    RETURN_IF_ERROR(mounter.Mount(bind));
  }
  platform::MountRequest make_private{.target = folder};
  make_private.options = {"private"};
  return mounter.Mount(make_private);
}

Status RemoveEmptyPins(const std::string& folder) {
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

Status UnpinNamespace(platform::Mounter& mounter, const std::string& pin) {
  if (OpenPin(pin).valid()) RETURN_IF_ERROR(mounter.UnmountLazy(pin));
  if (unlink(pin.c_str()) != 0 && errno != ENOENT) {
    return platform::ErrnoError(errno, fmt::format("remove {}", Quote(pin)));
  }
  return base::OkStatus();
}

}  // namespace berth::crust
