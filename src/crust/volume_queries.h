// What is asked of a volume while it is published in a sandbox: its usage and condition, and to
// grow its file system. The answers have the form of proto/crust.proto.
//
// The caller holds the sandbox.
#pragma once

#include "base/status.h"
#include "crust/records/sandbox_records.h"
#include "crust/sandbox.h"
#include "proto/crust.pb.h"

namespace berth::crust {

// NOT_FOUND: the volume is not mounted in the sandbox.
base::StatusOr<::crust::v1alpha1::RuntimeGetVolumeStatsResponse> ReadVolumeStats(
    Sandbox& sandbox, const VolumeRecord& volume);

// Checks whether the volume's file system can grow to `required_bytes`. Returns the device's size;
// without a size for a share. UNAVAILABLE: the device has less, but may still grow.
base::StatusOr<::crust::v1alpha1::RuntimeExpandVolumeResponse> CheckGrowth(
    const VolumeRecord& volume, int64_t required_bytes);

// Grows the volume's file system to the size of its device. Errors are those
// of CheckGrowth; other errors: see Sandbox::ExpandVolume.
base::StatusOr<::crust::v1alpha1::RuntimeExpandVolumeResponse> ExpandVolume(
    Sandbox& sandbox, const VolumeRecord& volume, int64_t required_bytes);

}  // namespace berth::crust
