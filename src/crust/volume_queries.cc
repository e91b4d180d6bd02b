#include "crust/volume_queries.h"

#include "base/log.h"
#include "crust/device.h"

namespace berth::crust {

namespace wire = ::crust::v1alpha1;
using base::Error;
using base::Quote;
using base::StatusCode;
using base::StatusOr;

StatusOr<wire::RuntimeGetVolumeStatsResponse> ReadVolumeStats(Sandbox& sandbox,
                                                              const VolumeRecord& volume) {
  ASSIGN_OR_RETURN(const VolumeStats stats, sandbox.ReadStats(volume.plan));
  wire::RuntimeGetVolumeStatsResponse response;
  const auto add = [&](wire::VolumeUsage::Unit unit, int64_t total, int64_t used,
                       int64_t available) {
    wire::VolumeUsage* usage = response.add_usage();
    usage->set_unit(unit);
    usage->set_total(total);
    usage->set_used(used);
    usage->set_available(available);
  };
  if (const auto& usage = stats.usage; usage.has_value()) {
    add(wire::VolumeUsage::BYTES, usage->total_bytes, usage->used_bytes, usage->available_bytes);
    add(wire::VolumeUsage::INODES, usage->total_inodes, usage->used_inodes,
        usage->available_inodes);
  }
  response.mutable_volume_condition()->set_abnormal(stats.abnormal);
  response.mutable_volume_condition()->set_message(stats.condition);
  return response;
}

StatusOr<wire::RuntimeExpandVolumeResponse> CheckGrowth(const VolumeRecord& volume,
                                                        int64_t required_bytes) {
  wire::RuntimeExpandVolumeResponse response;
  const Device& device = volume.plan.device;
  if (!device.block) return response;
  ASSIGN_OR_RETURN(const int64_t size, ReadDeviceSize(device));
  if (size < required_bytes) {
    // The device may still grow, so the caller should try again. FAILED_PRECONDITION would be
    // final.
    return Error(StatusCode::kUnavailable,
                 "device {} has {} bytes, but {} are requested: the device has to grow first",
                 Quote(device.source), size, required_bytes);
  }
  response.set_capacity_bytes(size);
  return response;
}

StatusOr<wire::RuntimeExpandVolumeResponse> ExpandVolume(Sandbox& sandbox,
                                                         const VolumeRecord& volume,
                                                         int64_t required_bytes) {
  ASSIGN_OR_RETURN(wire::RuntimeExpandVolumeResponse response, CheckGrowth(volume, required_bytes));
  ASSIGN_OR_RETURN(const int64_t capacity, sandbox.ExpandVolume(volume.plan));
  // For a block device the capacity is the device's size, because a file system uses some of the
  // device for itself.
  if (!volume.plan.device.block) response.set_capacity_bytes(capacity);
  return response;
}

}  // namespace berth::crust
