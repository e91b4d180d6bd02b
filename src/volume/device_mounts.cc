#include "volume/device_mounts.h"

#include <sys/sysmacros.h>

#include "base/log.h"
#include "platform/devices/device_file.h"
#include "platform/file_systems/file_system.h"
#include "platform/processes/child.h"

namespace berth::volume {
namespace {

using base::Error;
using base::Quote;
using base::StatusCode;

// The child is given up if the device's server does not answer.
base::StatusOr<int64_t> ReadDeviceBytes(const std::string& device) {
  constexpr std::chrono::seconds kTime(10);
  ASSIGN_OR_RETURN(const uint64_t bytes,
                   platform::AskChild<uint64_t>(
                       fmt::format("size of {}", Quote(device)), kTime, [device](uint64_t& bytes) {
                         return platform::ReadBlockDeviceSize(device.c_str(), bytes);
                       }));
  return static_cast<int64_t>(bytes);
}

}  // namespace

base::StatusOr<bool> ShowsDevice(Host& host, const platform::MountEntry& mount, dev_t number) {
  if (mount.fs_type != "btrfs") return makedev(mount.major, mount.minor) == number;
  ASSIGN_OR_RETURN(const auto found, host.LookAtDevices({mount.source}));
  return found.front().present && found.front().block && found.front().number == number;
}

base::Status GrowFileSystem(Host& host, platform::Exec& exec, const Growth& growth) {
  ASSIGN_OR_RETURN(const int64_t size, ReadDeviceBytes(growth.device));
  if (size < growth.bytes) {
    return Error(StatusCode::kFailedPrecondition,
                 "device {} has {} bytes, fewer than {}: grow the device first",
                 Quote(growth.device), size, growth.bytes);
  }
  ASSIGN_OR_RETURN(const auto found, host.LookAtDevices({growth.device}));
  ASSIGN_OR_RETURN(const auto table, host.mounter().List());
  const platform::MountEntry* entry = platform::FindMount(table, growth.mount_point);
  bool shown = false;
  if (entry != nullptr) {
    ASSIGN_OR_RETURN(shown, ShowsDevice(host, *entry, found.front().number));
  }
  if (!shown) {
    return Error(StatusCode::kFailedPrecondition, "device {} is not mounted at {}",
                 Quote(growth.device), Quote(growth.mount_point));
  }
  const platform::FileSystem* fs = platform::FindFileSystem(entry->fs_type);
  if (fs == nullptr) {
    return Error(StatusCode::kUnimplemented, "a file system of type {} does not grow",
                 entry->fs_type);
  }
  return fs->Resize(exec, growth.device, platform::MountPoint(growth.mount_point));
}

}  // namespace berth::volume
