// Makes and removes the folder of a local volume, which is on disk or is a tmpfs of its own.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "volume/host.h"

namespace berth::volume {

enum class Medium { kDisk, kMemory };

// Makes the folder, with mode 0777 as the kubelet does, because the pod's own folder above it
// already keeps other users out. With `kMemory` it is a tmpfs of at most `size_bytes` (0: the
// kernel's default, half of the memory), which is never swapped out if the kernel supports that.
// Idempotent; FAILED_PRECONDITION: something else is mounted there.
base::Status PrepareVolumeFolder(Host& host, const std::string& path, Medium medium,
                                 int64_t size_bytes);

// Unmounts everything at `path` and removes the tree. OK if it does not exist. FAILED_PRECONDITION:
// something is still mounted in it.
base::Status RemoveVolumeFolder(Host& host, const std::string& path);

}  // namespace berth::volume
