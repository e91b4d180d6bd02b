// The steps of a unit (volume_units.h) for the device that its pods share.
#include "base/flight.h"
#include "base/log.h"
#include "node/volumes/dead_mounts.h"
#include "node/volumes/volume_units.h"

namespace berth::node {

using base::Error;
using base::MutexLock;
using base::OkStatus;
using base::Quote;
using base::Status;
using base::StatusCode;
using base::StatusOr;

// Whether the mount that MountDevice made is still there (docs/design.md, rule 7). False:
// MountDevice must be called (again). FAILED_PRECONDITION: something else is mounted in its place,
// which no pod may get. Detaches the mount if it is dead.
StatusOr<bool> VolumeUnits::IsDeviceMounted(const Job& job) const {
  const std::optional<StoredDevice>& device = job.device;
  if (!device.has_value() || !device->mount.has_value() || !IsThisBoot(device->boot_id)) {
    return job.device_mounted;
  }
  const std::string path = job.volume.plugin->DevicePath(device->record);
  // Pods that have a dead mount keep it, but no other pod may get it.
  RETURN_IF_ERROR(DetachDeadMount(deps_.host.mounter(), path, device->mount));
  ASSIGN_OR_RETURN(const auto table, deps_.host.mounter().List());
  const platform::MountEntry* mount = platform::FindMount(table, path);
  if (mount == nullptr) {
    LOG_WARNING("volume {} is no longer mounted at {}: it is mounted again",
                Quote(device->record.device_name), Quote(path));
    return false;
  }
  if (IdentifyMount(table, path) == device->mount) return job.device_mounted;
  return Error(StatusCode::kFailedPrecondition,
               "another mount ({} from {}) stands at {} in place of this volume's: unmount it, or "
               "end the pods that use the volume",
               mount->fs_type, Quote(mount->source), Quote(path));
}

// Mounts the device unless it is mounted already. True: it is mounted; an error was reported to the
// pod.
StatusOr<bool> VolumeUnits::MountDevice(Job& job, const Attachment& attachment) {
  const StatusOr<bool> stands = IsDeviceMounted(job);
  if (!stands.ok()) return ReportFailure(job, "mount it on the node", stands.status());
  if (*stands) return true;
  const volume::VolumeSpec& spec = job.volume.spec;
  StatusOr<base::Json> state = job.volume.plugin->DeviceState(spec);
  if (!state.ok()) return ReportFailure(job, "mount it on the node", state.status());
  StoredDevice device{.record = {.plugin = std::string(job.volume.plugin->name()),
                                 .device_name = job.volume.device_name,
                                 .pv_name = spec.pv != nullptr ? spec.pv->name() : "",
                                 .state = *std::move(state)},
                      .step = Step::kMounting,
                      .needs_attach = job.volume.needs_attach};
  if (const Status written = deps_.records.Write(device); !written.ok()) {
    return ReportFailure(job, "mount it on the node", written);
  }
  UpdateUse(job, [&device](Unit& unit, Use&) { unit.device = device; });
  job.device = device;
  base::FlightSpan span(base::FlightKind::kStep, "mount device", device.record.pv_name);
  const Status mounted = job.volume.plugin->MountDevice(*job.pod, spec, attachment.publish_context);
  span.End(mounted);
  if (!mounted.ok()) return ReportFailure(job, "mount it on the node", mounted);
  LOG_INFO("volume {} is mounted on the node", Quote(device.record.device_name));
  const auto table = deps_.host.mounter().List();
  if (!table.ok()) return ReportFailure(job, "mount it on the node", table.status());
  device.mount = IdentifyMount(*table, job.volume.plugin->DevicePath(device.record));
  UpdateUse(job, [&device](Unit& unit, Use&) {
    unit.device = device;
    unit.device_mounted = true;
    unit.device_recorded = false;
  });
  job.device = device;
  job.device_mounted = true;
  return true;
}

Status VolumeUnits::UnmountDevice(volume::VolumePlugin& plugin, const StoredDevice& device) const {
  if (IsThisBoot(device.boot_id)) {
    RETURN_IF_ERROR(
        DetachDeadMount(deps_.host.mounter(), plugin.DevicePath(device.record), device.mount));
  }
  return plugin.UnmountDevice(device.record);
}

// An unmount that was begun before a restart, or that failed, comes before any new mount.
Status VolumeUnits::FinishDeviceUnmount(const std::string& key) {
  std::optional<StoredDevice> device;
  {
    MutexLock lock(mutex_);
    const auto found = units_.find(key);
    if (found == units_.end() || !found->second->device.has_value() ||
        found->second->device->step != Step::kUnmounting) {
      return OkStatus();
    }
    device = found->second->device;
  }
  const auto plugin = FindPlugin(device->record.plugin);
  base::FlightSpan span(base::FlightKind::kStep, "unmount device", device->record.pv_name);
  Status unmounted = plugin.ok() ? UnmountDevice(**plugin, *device) : plugin.status();
  span.End(unmounted);
  if (!unmounted.ok() && !IsThisBoot(device->boot_id)) {
    LOG_WARNING("unmount volume {} from before the reboot: {}; its record is dropped",
                Quote(device->record.device_name), base::ToString(unmounted));
    unmounted = plugin.ok() ? (*plugin)->ForgetDevice(device->record) : OkStatus();
  }
  if (!unmounted.ok()) {
    const Status status = base::Annotate(
        unmounted, fmt::format("unmount volume '{}' from the node", device->record.device_name));
    for (const Job& job :
         FindJobs(key, [](const Unit&, const Use& use) { return use.state.IsWanted(); })) {
      SetReason(
          job, fmt::format("waiting until its last use is cleaned up: {}", base::ToString(status)));
      WarnPod(job, "FailedMount",
              fmt::format("volume '{}': {}", job.volume.spec.name, base::ToString(status)));
    }
    return status;
  }
  RETURN_IF_ERROR(deps_.records.Remove(*device));
  LOG_INFO("volume {} is unmounted from the node", Quote(device->record.device_name));
  deps_.owner.ForgetDamaged(device->record.device_name);
  {
    MutexLock lock(mutex_);
    const auto found = units_.find(key);
    if (found == units_.end()) return OkStatus();
    found->second->device.reset();
    found->second->device_mounted = found->second->device_recorded = false;
    found->second->expanded_to = found->second->expand_refused = 0;
    found->second->expanded_claim.clear();
  }
  return OkStatus();
}

Status VolumeUnits::UnmountUnusedDevice(const std::string& key) {
  EraseUses(key);
  StoredDevice device;
  {
    MutexLock lock(mutex_);
    const auto found = units_.find(key);
    if (found == units_.end()) return OkStatus();
    if (!found->second->uses.empty()) return OkStatus();
    device = *found->second->device;  // EraseUses has erased units without uses and device
    found->second->device_mounted = false;
  }
  if (device.step != Step::kUnmounting) {
    device.step = Step::kUnmounting;
    const Status written = IsThisBoot(device.boot_id) ? deps_.records.Write(device) : OkStatus();
    if (!written.ok() && written.code() != StatusCode::kResourceExhausted) return written;
    MutexLock lock(mutex_);
    if (const auto found = units_.find(key); found != units_.end()) found->second->device = device;
  }
  RETURN_IF_ERROR(FinishDeviceUnmount(key));
  EraseUses(key);
  return OkStatus();
}

}  // namespace berth::node
