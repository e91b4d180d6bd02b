// The part of Node for volumes whose file system a container runtime mounts in place of this host
// (KEP-2857).
//
// Only one kernel at a time may mount a file system for writing, because two kernels do not see
// each other's writes, and data is lost. So a volume is either mounted here or deferred. Before the
// other kind of user gets the device, the device is detached, which takes it from the earlier user.
#include "base/fault.h"
#include "base/log.h"
#include "block/device.h"
#include "csidriver/node.h"

namespace berth::csidriver {
namespace {

using base::Error;
using base::StatusCode;

// Adds the options that the runtime needs for its mount: those of the capability, and "ro" for a
// read-only mount.
void AddOptions(const Capability& capability, bool read_only,
                google::protobuf::Map<std::string, std::string>& options) {
  for (const std::string& flag : capability.mount_flags) {
    const size_t equals = flag.find('=');
    options[flag.substr(0, equals)] = equals == std::string::npos ? "" : flag.substr(equals + 1);
  }
  if (!read_only) return;
  options.erase("rw");  // a map has no order, so the last one would not win
  options["ro"] = "";
}

}  // namespace

bool CanDefer(const csi::v1::NodePublishVolumeRequest& request, const block::Record& volume) {
  const auto& supported = request.runtime_supported_filesystems();
  return volume.access == block::AccessType::kMount &&
         std::ranges::find(supported, volume.fs_type) != supported.end();
}

base::Status CheckOneKernel(const block::Record& volume, const PublishedTarget& wanted,
                            const std::vector<PublishedTarget>& others) {
  for (const PublishedTarget& other : others) {
    if (other.deferred != wanted.deferred) {
      return Error(StatusCode::kFailedPrecondition,
                   "volume {} is {} at {}, and cannot be {} at {} meanwhile, because two kernels "
                   "that have one file system mounted destroy it",
                   base::Quote(volume.id),
                   other.deferred ? "deferred to a container runtime" : "mounted on this host",
                   other.path,
                   wanted.deferred ? "deferred to a container runtime" : "mounted on this host",
                   wanted.path);
    }
    if (wanted.deferred && !(wanted.read_only && other.read_only)) {
      return Error(StatusCode::kFailedPrecondition,
                   "volume {} is deferred to a container runtime {} at {}: a second sandbox, at "
                   "{}, may have it only if both are read-only",
                   base::Quote(volume.id), other.read_only ? "read-only" : "writable", other.path,
                   wanted.path);
    }
  }
  return base::OkStatus();
}

base::StatusOr<platform::LoopDevice> Node::GetDeviceFor(const block::Record& volume,
                                                        const PublishedTarget& wanted,
                                                        const NodeRecord& record,
                                                        const Presence& presence) {
  if (volume.access == block::AccessType::kBlock) return *presence.device();
  const bool first = record.targets.empty();
  if (first && wanted.deferred) {
    RETURN_IF_ERROR_WITH(UnmountAll(volume.id, record.staging_path), "unmount its staging path");
    ASSIGN_OR_RETURN(const Presence unmounted, FindPresence(volume.id));
    if (const std::string elsewhere = unmounted.FindMountPoint(); !elsewhere.empty()) {
      return Error(StatusCode::kFailedPrecondition,
                   "it is mounted on this host at {}, and a container runtime cannot have it as "
                   "well",
                   base::Quote(elsewhere));
    }
  }
  const bool was_given =
      record.use == DeviceUse::kDeferred || (wanted.deferred && record.use == DeviceUse::kMounted);
  if (presence.device().has_value() && !(first && was_given)) return *presence.device();
  return PrepareAgain(volume, record.use);
}

// Detaches the device and prepares the volume again. The detachment proves that no earlier user
// still has the device: copied mount namespaces, or a sandbox that has not ended, would make it
// fail. The preparation repairs the file system if a virtual machine was switched off while it had
// the file system mounted, as at staging.
base::StatusOr<platform::LoopDevice> Node::PrepareAgain(const block::Record& volume,
                                                        DeviceUse use) {
  RETURN_IF_ERROR(base::FaultPoint<"csidriver.anew.detach.before">());
  RETURN_IF_ERROR(DetachVolume(volume.id, use));
  RETURN_IF_ERROR(base::FaultPoint<"csidriver.anew.detach.after">());
  auto device = MapAndPrepare(volume);
  if (!device.ok()) {
    // The device is removed, so that the next call prepares the volume again.
    if (const base::Status unmapped = pool_.Unmap(volume.id); !unmapped.ok()) {
      LOG_WARNING("volume {} could not be prepared, and not be detached either: {}",
                  base::Quote(volume.id), base::ToString(unmapped));
    }
  }
  return device;
}

base::StatusOr<csi::v1::NodePublishVolumeResponse> Node::DeferTarget(
    const block::Record& volume, const Capability& capability, const PublishedTarget& target,
    const platform::LoopDevice& device) {
  RETURN_IF_ERROR(base::FaultPoint<"csidriver.defer.target.before">());
  // The device itself is made read-only, because a sandbox may ignore its mount options, and even a
  // read-only mount replays the journal if the device can be written.
  RETURN_IF_ERROR(block::SetReadOnly(device, target.read_only));
  RETURN_IF_ERROR(MakeTarget(target.path, volume.access));
  RETURN_IF_ERROR(base::FaultPoint<"csidriver.defer.target.after">());
  csi::v1::NodePublishVolumeResponse response;
  csi::v1::FileSystemMountInfo& mount = *response.mutable_runtime_mount_info();
  mount.set_source(device.path);
  mount.set_type(volume.fs_type);
  AddOptions(capability, target.read_only, *mount.mutable_options());
  return response;
}

}  // namespace berth::csidriver
