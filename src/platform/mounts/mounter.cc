// The part of mounter.h that changes mounts. The table and the options are in mount_table.cc.
#include "platform/mounts/mounter.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>

#include "base/fault.h"
#include "base/log.h"
#include "base/shared_read.h"
#include "base/unique_fd.h"
#include "platform/errno.h"
#include "platform/mounts/btrfs_devices.h"
#include "platform/mounts/fuse_server.h"
#include "platform/mounts/safe_path.h"
#include "platform/processes/child.h"

namespace berth::platform {
namespace {

using base::Quote;

constexpr std::chrono::seconds kMountTimeout(30);
constexpr std::chrono::seconds kUnmountTimeout(10);
constexpr std::chrono::seconds kAskTimeout(2);

// The data of a child, prepared before it starts, because the child may not allocate.
struct Plan {
  std::string source, target, fs_type, data;
  unsigned long flags = 0, propagation = 0;
  bool one_device = false;
};

// Writes "/proc/self/fd/N" without allocating.
struct FdPath {
  explicit FdPath(int fd) {
    constexpr std::string_view kPrefix = "/proc/self/fd/";
    char* at = std::copy(kPrefix.begin(), kPrefix.end(), text.data());
    *std::to_chars(at, text.data() + text.size() - 1, fd).ptr = '\0';
  }
  const char* c_str() const { return text.data(); }
  std::array<char, 32> text;
};

// Opens the target itself; -errno on failure. A symlink gives ELOOP, because a container may have
// put it there.
int OpenTarget(const Plan& plan) {
  const int fd = open(plan.target.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return -errno;
  struct stat st;
  if (fstat(fd, &st) != 0) return -errno;
  return S_ISLNK(st.st_mode) ? -ELOOP : fd;
}

mount_attr ToBindAttributes(unsigned long flags, unsigned long propagation) {
  mount_attr attr = {};
  constexpr std::array kPairs = std::to_array<std::pair<unsigned long, uint64_t>>({
      {MS_RDONLY, MOUNT_ATTR_RDONLY},
      {MS_NOSUID, MOUNT_ATTR_NOSUID},
      {MS_NODEV, MOUNT_ATTR_NODEV},
      {MS_NOEXEC, MOUNT_ATTR_NOEXEC},
      {MS_NODIRATIME, MOUNT_ATTR_NODIRATIME},
      {MS_NOSYMFOLLOW, MOUNT_ATTR_NOSYMFOLLOW},
  });
  for (const auto& [flag, attribute] : kPairs) {
    if (flags & flag) attr.attr_set |= attribute;
  }
  if (flags & (MS_NOATIME | MS_STRICTATIME | MS_RELATIME)) {
    attr.attr_clr |= MOUNT_ATTR__ATIME;
    if (flags & MS_NOATIME) attr.attr_set |= MOUNT_ATTR_NOATIME;
    if (flags & MS_STRICTATIME) attr.attr_set |= MOUNT_ATTR_STRICTATIME;
  }
  attr.propagation = propagation & ~static_cast<unsigned long>(MS_REC);
  return attr;
}

// Makes a bind that has its attributes before it can be seen. Returns 0 or an errno. If it sets
// `unsupported`, the kernel or a seccomp filter does not allow the calls, and nothing was done.
int BindWhole(const Plan& plan, int target, bool& unsupported) {
  const unsigned recursive = plan.flags & MS_REC ? AT_RECURSIVE : 0;
  const int tree =
      open_tree(AT_FDCWD, plan.source.c_str(), OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | recursive);
  if (tree < 0) {
    unsupported = errno == ENOSYS || errno == EPERM;
    return errno;
  }
  mount_attr attr = ToBindAttributes(plan.flags, plan.propagation);
  // A new mount keeps the propagation that it copies from its source, unless the caller asked for
  // another.
  if (attr.attr_set != 0 || attr.attr_clr != 0 || attr.propagation != 0) {
    const unsigned deep = plan.propagation & MS_REC ? AT_RECURSIVE : 0;
    if (mount_setattr(tree, "", AT_EMPTY_PATH | recursive | deep, &attr, sizeof(attr)) != 0) {
      unsupported = errno == ENOSYS;
      return errno;
    }
  }
  if (move_mount(tree, "", target, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) != 0) {
    return errno;
  }
  return 0;
}

// Closes `below`, the descriptor of the folder that the new mount at the target covers, and opens
// the mount's root; -errno on failure.
int ReopenTarget(const Plan& plan, int below) {
  close(below);
  return OpenTarget(plan);
}

// Binds first and then changes the flags and the propagation. The bind is undone if that fails.
int BindInSteps(const Plan& plan, int target) {
  const unsigned long bind = plan.flags & (MS_BIND | MS_REC);
  // Mounts below the source would keep their flags, although the caller asked for "ro".
  if ((plan.flags & MS_REC) != 0 && plan.flags != bind) return EOPNOTSUPP;
  if (mount(plan.source.c_str(), FdPath(target).c_str(), nullptr, bind, nullptr) != 0) return errno;
  target = ReopenTarget(plan, target);
  if (target < 0) return -target;
  const FdPath path(target);
  int error = 0;
  if (plan.flags != bind &&
      mount(nullptr, path.c_str(), nullptr, MS_REMOUNT | plan.flags, nullptr) != 0) {
    error = errno;
  }
  if (error == 0 && plan.propagation != 0 &&
      mount(nullptr, path.c_str(), nullptr, plan.propagation, nullptr) != 0) {
    error = errno;
  }
  if (error != 0) umount2(plan.target.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW);
  return error;
}

int BindMount(const Plan& plan, int target) {
  bool unsupported = false;
  const int error = BindWhole(plan, target, unsupported);
  return unsupported ? BindInSteps(plan, target) : error;
}

// Returns 0 or an errno.
int CallMount(const Plan& plan, int target) {
  const char* data = plan.data.empty() ? nullptr : plan.data.c_str();
  const int mounted =
      mount(plan.source.c_str(), FdPath(target).c_str(), plan.fs_type.c_str(), plan.flags, data);
  return mounted == 0 ? 0 : errno;
}

// Returns 0 or an errno. A btrfs that is not the one of the source is unmounted again, and then
// `other` says why.
int MountBtrfs(const Plan& plan, int target, OtherDevices& other) {
  const auto unmount = [&plan] {
    if (umount2(plan.target.c_str(), UMOUNT_NOFOLLOW) != 0) {
      umount2(plan.target.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW);
    }
  };
  const auto mount_and_open = [&] {
    if (const int error = CallMount(plan, target); error != 0) return -error;
    const int root = open(plan.target.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    const int error = errno;
    if (root < 0) unmount();
    return root < 0 ? -error : root;
  };
  const int root =
      MountOwnBtrfs(plan.source.c_str(), plan.one_device, mount_and_open, unmount, other);
  if (root < 0) return root == -EXDEV && other.found() ? 0 : -root;
  close(root);
  return 0;
}

int MountNew(const Plan& plan, int target, OtherDevices& other) {
  const int failed =
      plan.fs_type == "btrfs" ? MountBtrfs(plan, target, other) : CallMount(plan, target);
  if (failed != 0 || other.found()) return failed;
  if (plan.propagation == 0) return 0;
  target = ReopenTarget(plan, target);
  if (target < 0) return -target;
  if (mount(nullptr, FdPath(target).c_str(), nullptr, plan.propagation, nullptr) == 0) return 0;
  const int error = errno;
  close(target);
  umount2(plan.target.c_str(), UMOUNT_NOFOLLOW);
  return error;
}

// Changes an existing mount: its flags, or its propagation.
int ChangeMount(const Plan& plan, int target) {
  const FdPath path(target);
  if (plan.flags & MS_REMOUNT && mount(nullptr, path.c_str(), nullptr, plan.flags,
                                       plan.data.empty() ? nullptr : plan.data.c_str()) != 0) {
    return errno;
  }
  if (plan.propagation != 0 &&
      mount(nullptr, path.c_str(), nullptr, plan.propagation, nullptr) != 0) {
    return errno;
  }
  return 0;
}

int RunPlan(const Plan& plan, OtherDevices& other) {
  const int target = OpenTarget(plan);
  if (target < 0) return -target;
  const bool change =
      (plan.flags & MS_REMOUNT) != 0 ||
      (plan.fs_type.empty() && (plan.flags & MS_BIND) == 0 && plan.propagation != 0);
  if (change) return ChangeMount(plan, target);
  return plan.flags & MS_BIND ? BindMount(plan, target) : MountNew(plan, target, other);
}

std::string DescribeMount(const MountRequest& request, const Plan& plan) {
  const std::string_view what = plan.flags & MS_REMOUNT ? "remount"
                                : plan.flags & MS_BIND  ? "bind"
                                                        : std::string_view(request.fs_type);
  return fmt::format("mount {} {} at {}", what, Quote(request.source), Quote(request.target));
}

base::Status CheckAbsolute(std::string_view target) {
  if (target.starts_with('/') && target.find('\0') == std::string_view::npos) {
    return base::OkStatus();
  }
  return base::Error(base::StatusCode::kInvalidArgument, "mount target {} is not an absolute path",
                     Quote(target));
}

class KernelMounter : public Mounter {
 public:
  base::StatusOr<std::vector<MountEntry>> List() override {
    // A storm of mounts asks for a table that grows with each of them.
    return *table_.Get([] { return ReadMountTable("/proc/self/mountinfo"); });
  }

  base::Status Mount(const MountRequest& request) override {
    RETURN_IF_ERROR(CheckAbsolute(request.target));
    ParsedOptions options = ParseMountOptions(request.options);
    Plan plan{request.source, request.target,      request.fs_type,   options.data,
              options.flags,  options.propagation, request.one_device};
    const std::string what = DescribeMount(request, plan);
    if (plan.fs_type.empty() && plan.propagation == 0 && !(plan.flags & (MS_BIND | MS_REMOUNT))) {
      return base::Error(base::StatusCode::kInvalidArgument, "{}: no file system type given", what);
    }
    RETURN_IF_ERROR(base::FaultPoint<"platform.mount.before">());
    const auto run = [plan = std::move(plan)](OtherDevices& other) { return RunPlan(plan, other); };
    ASSIGN_OR_RETURN(const OtherDevices other,
                     AskChild<OtherDevices>(what, kMountTimeout, run,
                                            ParseDescriptors({request.source, request.target})));
    if (other.found()) {
      return base::Error(base::StatusCode::kFailedPrecondition, "{}: {}", what,
                         DescribeOther(other));
    }
    return base::FaultPoint<"platform.mount.after">();
  }

  base::Status Unmount(std::string_view target) override { return UnmountWith(target, 0); }
  base::Status UnmountLazy(std::string_view target) override {
    return UnmountWith(target, MNT_DETACH);
  }

  bool IsDead(const MountEntry& mount) override {
    return IsFuse(mount) && AskFuse(mount.mount_point, kAskTimeout) == FuseAnswer::kDead;
  }

  base::Status MakeShared(std::string_view folder) override {
    RETURN_IF_ERROR(CheckAbsolute(folder));
    const std::string path(folder);
    ASSIGN_OR_RETURN(const std::vector<MountEntry> table, List());
    const MountEntry* entry = FindMount(table, folder);
    if (entry == nullptr) {
      RETURN_IF_ERROR(Mount({.source = path, .target = path, .fs_type = "", .options = {"rbind"}}));
    } else if (std::any_of(entry->propagation.begin(), entry->propagation.end(),
                           [](const std::string& tag) { return tag.starts_with("shared:"); })) {
      return base::OkStatus();
    }
    return Mount({.source = "", .target = path, .fs_type = "", .options = {"rshared"}});
  }

 private:
  base::Status UnmountWith(std::string_view target, int flags) {
    RETURN_IF_ERROR(CheckAbsolute(target));
    const std::string path(target);
    const std::string what = fmt::format("unmount {}", Quote(target));
    RETURN_IF_ERROR(base::FaultPoint<"platform.unmount.before">());
    // errno tells "not mounted" (EINVAL) from "busy"; the Status code alone may not.
    const auto unmount = [path, flags](int& error) {
      error = umount2(path.c_str(), flags | UMOUNT_NOFOLLOW) == 0 ? 0 : errno;
      return 0;
    };
    ASSIGN_OR_RETURN(const int error,
                     AskChild<int>(what, kUnmountTimeout, unmount, ParseDescriptors({target})));
    if (error == 0) return base::FaultPoint<"platform.unmount.after">();
    if (error == ENOENT) return base::OkStatus();
    if (error != EINVAL && error != ENOTDIR) return ErrnoError(error, what);
    ASSIGN_OR_RETURN(const std::vector<MountEntry> table, List());
    return FindMount(table, target) == nullptr ? base::OkStatus() : ErrnoError(error, what);
  }

  base::SharedRead<base::StatusOr<std::vector<MountEntry>>> table_;
};

}  // namespace

std::unique_ptr<Mounter> NewMounter() { return std::make_unique<KernelMounter>(); }

}  // namespace berth::platform
