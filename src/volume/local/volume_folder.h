// The folder of a local volume, on disk or as a tmpfs of its own.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "volume/host.h"

namespace berth::volume {

enum class Medium { kDisk, kMemory };

// Makes the folder (mode 0777, as the kubelet does: the pod's own folder above it keeps others
// out). With `kMemory` it is a tmpfs of at most `size_bytes` (0: the kernel's default, half of the
// memory), which is never swapped out if the kernel can do that. Idempotent; FAILED_PRECONDITION:
// something else is mounted there.
base::Status PrepareVolumeFolder(Host& host, const std::string& path, Medium medium,
                                 int64_t size_bytes);

// Unmounts what is mounted at `path` and removes the tree. OK if it is not there.
base::Status RemoveVolumeFolder(Host& host, const std::string& path);

}  // namespace berth::volume
