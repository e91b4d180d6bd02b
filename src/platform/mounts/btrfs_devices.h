// The devices that a mounted btrfs consists of.
//
// The kernel mounts a btrfs by its UUID from all devices that were registered for this UUID, and it
// believes the superblock with the highest generation. udev registers each device that appears. But
// who may write a raw block volume chooses the UUID that stands there. So a mount of one volume's
// device can show what another volume's device holds, and only a look at the mounted file system
// tells (kernels up to 6.6 at least).
//
// All functions but DescribeOther are async-signal-safe and are for children (child.h).
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace berth::platform {

// What is wrong with a mounted btrfs.
struct OtherDevices {
  uint64_t count = 0;            // of the file system's devices; 0: nothing is wrong
  std::array<char, 256> path{};  // of one of them, if the source is not among them; else empty
  bool found() const { return count != 0; }
};

// Looks whether the btrfs with the open folder `root` has `source` among its devices, and no other
// device if it must be `alone`. Returns 0 and fills in `other`, or returns an errno.
int FindOtherDevices(int root, const char* source, bool alone, OtherDevices& other);

// Makes the kernel forget that the device belongs to a btrfs. False: it could not,
// for example because that btrfs is mounted.
bool ForgetBtrfsDevice(const OtherDevices& other);

// Says why the mount was refused.
std::string DescribeOther(const OtherDevices& other);

}  // namespace berth::platform
