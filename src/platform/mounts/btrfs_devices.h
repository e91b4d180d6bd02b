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

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <string>

namespace berth::platform {

// Says how the devices of a mounted btrfs differ from the expected one.
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

// Mounts a btrfs, and looks whether it is that of `source`. If another device was registered with
// its UUID, the kernel is made to forget that device, and the mount is made once more. `mount`
// returns a descriptor of the root folder, or a negative errno after which nothing is mounted;
// `unmount` undoes it. Returns the descriptor or a negative errno; -EXDEV: `other` says why the
// mount is refused.
template <typename Mount, typename Unmount>
int MountOwnBtrfs(const char* source, bool alone, const Mount& mount, const Unmount& unmount,
                  OtherDevices& other) {
  for (bool again = false;; again = true) {
    const int root = mount();
    if (root < 0) return root;
    const int error = FindOtherDevices(root, source, alone, other);
    if (error == 0 && !other.found()) return root;
    close(root);
    unmount();
    if (error != 0) return -error;
    if (again || !ForgetBtrfsDevice(other)) return -EXDEV;
  }
}

// Says why the mount was refused.
std::string DescribeOther(const OtherDevices& other);

}  // namespace berth::platform
