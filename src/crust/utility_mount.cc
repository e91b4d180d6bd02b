#include "crust/utility_mount.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <vector>

#include "base/fault.h"
#include "base/ids.h"
#include "base/log.h"
#include "crust/mount_namespace.h"
#include "platform/errno.h"
#include "platform/files/durable_file.h"
#include "platform/processes/child.h"

namespace berth::crust {
namespace {

using base::Error;
using base::Quote;
using base::Status;
using base::StatusCode;
using base::StatusOr;
using base::UniqueFd;

constexpr std::chrono::minutes kUtilityTimeout(2);
constexpr std::chrono::seconds kTimeout(10);

// Returns the options as for mount(8) -o, with the SELinux label.
std::string JoinOptions(const MountFileSystem& mount) {
  std::vector<std::string> options = mount.options;
  if (!mount.selinux_label.empty()) {
    options.push_back(fmt::format("context=\"{}\"", mount.selinux_label));
  }
  return fmt::format("{}", fmt::join(options, ","));
}

Status CheckHost(const MountPlan& plan, const std::vector<platform::MountEntry>& table) {
  for (const Check& check : plan.checks) {
    const auto* host = std::get_if<IsNotMountedAt>(&check);
    if (host == nullptr || platform::FindMount(table, host->path) == nullptr) continue;
    return Error(StatusCode::kFailedPrecondition,
                 "something is mounted on the host where the deferred volume would be");
  }
  return base::OkStatus();
}

}  // namespace

StatusOr<UtilityMounts> UtilityMounts::Open(platform::Mounter& mounter, platform::Exec& exec,
                                            std::string folder, std::string kubelet_folder) {
  UtilityMounts mounts(mounter, exec, std::move(folder), std::move(kubelet_folder));
  RETURN_IF_ERROR(platform::MakeFolders(mounts.Target(), 0700));
  RETURN_IF_ERROR(PreparePins(mounter, mounts.folder_));
  ASSIGN_OR_RETURN(const std::vector<std::string> names, platform::ListFolder(mounts.folder_));
  for (const std::string& name : names) {
    const std::string pin = mounts.folder_ + "/" + name;
    if (pin == mounts.Target()) continue;
    LOG_INFO("a mount utility was interrupted: its mount in the namespace {} is unmounted",
             Quote(pin));
    RETURN_IF_ERROR(mounts.ReleasePin(pin));
  }
  return mounts;
}

StatusOr<UniqueFd> UtilityMounts::MountShare(const MountPlan& plan,
                                             const MountFileSystem& mount) const {
  ASSIGN_OR_RETURN(const auto table, mounter_.List());
  RETURN_IF_ERROR(CheckHost(plan, table));
  const std::string pin = folder_ + "/" + base::NewUuid();
  ASSIGN_OR_RETURN(const UniqueFd space, MakeNamespace(table));
  StatusOr<UniqueFd> root = MountInNamespace(pin, space, plan, mount);
  if (const Status released = ReleasePin(pin); !released.ok()) {
    // The handler removes it after its next restart.
    LOG_ERROR("release the mount utility's namespace {}: {}", Quote(pin), base::ToString(released));
  }
  return root;
}

StatusOr<UniqueFd> UtilityMounts::MakeNamespace(
    const std::vector<platform::MountEntry>& table) const {
  // Mounts below the kubelet's folder are removed from the copy, because a copy of a volume's mount
  // would keep its device busy if the host's mounts are not shared.
  std::vector<std::string> volumes;
  for (const platform::MountEntry& entry : table) {
    if (entry.mount_point == kubelet_folder_ ||
        entry.mount_point.starts_with(kubelet_folder_ + "/")) {
      volumes.push_back(entry.mount_point);
    }
  }
  std::ranges::reverse(volumes);
  ASSIGN_OR_RETURN(platform::OpenedInChild made,
                   platform::OpenInChild("make a mount namespace", kTimeout, [volumes] {
                     if (const int error = EnterNewNamespace(); error != 0) return -error;
                     if (mount(nullptr, "/", nullptr, MS_REC | MS_SLAVE, nullptr) != 0)
                       return -errno;
                     for (const std::string& volume : volumes) {
                       if (umount2(volume.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW) != 0 &&
                           errno != EINVAL && errno != ENOENT) {
                         return -errno;
                       }
                     }
                     const int space = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
                     return space < 0 ? -errno : space;
                   }));
  if (!made.fd.valid()) return platform::ErrnoError(made.error, "make a mount namespace");
  return std::move(made.fd);
}

StatusOr<UniqueFd> UtilityMounts::MountInNamespace(const std::string& pin, const UniqueFd& space,
                                                   const MountPlan& plan,
                                                   const MountFileSystem& mount) const {
  RETURN_IF_ERROR_WITH(PinNamespace(mounter_, space, pin), "keep the mount utility's namespace");
  RETURN_IF_ERROR(base::FaultPoint<"crust.utility.before">());
  platform::Command utility{.argv = {mount.utility, plan.device.source, Target()}};
  if (std::string options = JoinOptions(mount); !options.empty()) {
    utility.argv.insert(utility.argv.end(), {"-o", std::move(options)});
  }
  platform::Command in_namespace{.argv = {"nsenter", "--mount=" + pin, "--"},
                                 .timeout = kUtilityTimeout,
                                 .leaves_daemon = true};
  in_namespace.argv.insert(in_namespace.argv.end(), utility.argv.begin(), utility.argv.end());
  const std::string context = fmt::format("mount {} of {}", mount.type, Quote(plan.device.source));
  const auto ran = exec_.Run(in_namespace);
  RETURN_IF_ERROR_WITH(ran, context);
  if (ran->exit_code != 0) return base::Annotate(platform::ExitFailure(utility, *ran), context);
  RETURN_IF_ERROR(base::FaultPoint<"crust.utility.after">());
  const auto copy = [space = space.get(), target = Target()] {
    if (setns(space, CLONE_NEWNS) != 0) return -errno;
    const int root = OpenMountRoot(target.c_str());
    if (root < 0) return root;
    const int tree = open_tree(root, "", AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    return tree < 0 ? -errno : tree;
  };
  const std::string what = fmt::format("copy the mount that {} made", mount.utility);
  ASSIGN_OR_RETURN(platform::OpenedInChild copied,
                   platform::OpenInChild(what, kTimeout, copy, {space.get()}));
  if (copied.error == ENOENT) {
    return Error(StatusCode::kNotFound, "{}: {} reported success, but mounted nothing", context,
                 mount.utility);
  }
  if (!copied.fd.valid()) return platform::ErrnoError(copied.error, what);
  return std::move(copied.fd);
}

Status UtilityMounts::ReleasePin(const std::string& pin) const {
  if (const UniqueFd space = OpenPin(pin); space.valid()) {
    RETURN_IF_ERROR(
        platform::RunInChild("unmount what a mount utility mounted", kTimeout,
                             [space = space.get(), target = Target()] {
                               if (setns(space, CLONE_NEWNS) != 0) return errno;
                               if (umount2(target.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW) == 0)
                                 return 0;
                               return errno == EINVAL ? 0 : errno;  // nothing is mounted there
                             },
                             {space.get()}));
  }
  return UnpinNamespace(mounter_, pin);
}

}  // namespace berth::crust
