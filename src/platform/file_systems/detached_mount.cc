#include <fcntl.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>

#include "base/fault.h"
#include "base/log.h"
#include "platform/file_systems/file_systems.h"
#include "platform/mounts/btrfs_devices.h"
#include "platform/processes/child.h"

namespace berth::platform {
namespace {

struct Source {
  std::string device;
  std::string fs_type;
  std::vector<std::string> flags;
};

// Returns a descriptor of a new mount that is in no mount namespace, or -errno. Closing it
// unmounts.
int MountDetached(const Source& source) {
  const int context = fsopen(source.fs_type.c_str(), FSOPEN_CLOEXEC);
  if (context < 0) return -errno;
  if (fsconfig(context, FSCONFIG_SET_STRING, "source", source.device.c_str(), 0) != 0)
    return -errno;
  for (const std::string& flag : source.flags) {
    if (fsconfig(context, FSCONFIG_SET_FLAG, flag.c_str(), nullptr, 0) != 0) return -errno;
  }
  if (fsconfig(context, FSCONFIG_CMD_CREATE, nullptr, nullptr, 0) != 0) return -errno;
  const int mounted = fsmount(context, FSMOUNT_CLOEXEC, 0);
  const int error = errno;
  close(context);
  return mounted < 0 ? -error : mounted;
}

// As MountDetached, but returns a descriptor of the root folder, and unmounts a btrfs that is not
// the one of the device: then it fills in `other` and returns -EXDEV.
int OpenDetached(const Source& source, int& mounted, OtherDevices& other) {
  const auto mount_and_open = [&] {
    mounted = MountDetached(source);
    if (mounted < 0) return mounted;
    const int root = openat(mounted, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return root < 0 ? -errno : root;
  };
  if (source.fs_type != "btrfs") return mount_and_open();
  return MountOwnBtrfs(
      source.device.c_str(), /*alone=*/true, mount_and_open, [&mounted] { close(mounted); }, other);
}

}  // namespace

base::Status RunOnDetachedMount(const std::string& device, std::string_view fs_type,
                                const std::vector<std::string>& flags,
                                std::chrono::milliseconds timeout,
                                std::function<int(int root)> body) {
  const std::string what = fmt::format("mount {} {} for maintenance", fs_type, base::Quote(device));
  Source source{device, std::string(fs_type), flags};
  RETURN_IF_ERROR(base::FaultPoint<"platform.detached_mount.before">());
  const auto run = [source = std::move(source), body = std::move(body)](OtherDevices& other) {
    int mounted = -1;
    const int root = OpenDetached(source, mounted, other);
    if (root < 0) return other.found() ? 0 : -root;
    const int result = body(root);
    // Both are closed, so that the file system is unmounted before the answer is sent.
    close(root);
    close(mounted);
    return result;
  };
  ASSIGN_OR_RETURN(const OtherDevices other, AskChild<OtherDevices>(what, timeout, run));
  if (other.found()) {
    return base::Error(base::StatusCode::kFailedPrecondition, "{}: {}", what, DescribeOther(other));
  }
  return base::FaultPoint<"platform.detached_mount.after">();
}

base::Status GrowByPath(std::string_view what, const MountPoint& mount_point,
                        std::chrono::milliseconds timeout, std::function<int(int root)> grow) {
  return RunInChild(what, timeout, [path = mount_point.text(), grow = std::move(grow)] {
    const int root = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return root < 0 ? errno : grow(root);
  });
}

base::Status GrowByDescriptor(std::string_view what, int root, std::chrono::milliseconds timeout,
                              std::function<int(int opened)> grow) {
  const auto body = [root, grow = std::move(grow)] {
    const int opened = openat(root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return opened < 0 ? errno : grow(opened);
  };
  return RunInChild(what, timeout, body, {root});
}

}  // namespace berth::platform
