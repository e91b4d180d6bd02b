// The kernel's calls that grow a mounted file system. They are apart from the rest of the folder,
// because the first program of a virtual machine uses them, too, and links none of it.
//
// Async-signal-safe. Each may take minutes. They return 0 or an errno.
#pragma once

#include <cstdint>

namespace berth::platform {

// `root` is any descriptor in the file system; `bytes` is the size of its device.
int GrowMountedExt4(int root, uint64_t bytes);
// A remainder that is too small for an allocation group stays unused.
int GrowMountedXfs(int root, uint64_t bytes);
// Grows to the size of the device.
int GrowMountedBtrfs(int root);

}  // namespace berth::platform
