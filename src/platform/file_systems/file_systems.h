// The implementations of FileSystem and their common parts. Other code uses FindFileSystem.
#pragma once

#include <cstring>
#include <functional>

#include "platform/file_systems/file_system.h"

namespace berth::platform {

const FileSystem& Ext4();
const FileSystem& Xfs();
const FileSystem& Btrfs();

// Mounts `device` outside of every mount namespace (fsmount), calls `body` with a descriptor of its
// root, and unmounts, all in a child process: `body` must keep the rules of RunInChild. It serves
// steps that need a mount of an idle device.
base::Status RunOnDetachedMount(const std::string& device, std::string_view fs_type,
                                const std::vector<std::string>& flags,
                                std::chrono::milliseconds timeout,
                                std::function<int(int root)> body);

// Opens the root of a file system that is mounted at `mount_point` and calls `grow` with it, in a
// child process: `grow` must keep the rules of RunInChild.
base::Status GrowByPath(std::string_view what, const MountPoint& mount_point,
                        std::chrono::milliseconds timeout, std::function<int(int root)> grow);

// Reopens the root of a file system from an O_PATH descriptor and calls `grow` with it, in a child
// process: `grow` must keep the rules of RunInChild.
base::Status GrowByDescriptor(std::string_view what, int root, std::chrono::milliseconds timeout,
                              std::function<int(int opened)> grow);

// Runs a checker that changes nothing on `device`. DATA_LOSS: it found damage; the message quotes
// it.
base::Status RunChecker(Exec& exec, std::vector<std::string> checker, std::string_view type,
                        const std::string& device);

// Reads the bytes of a device from `offset` on, in a child with a deadline. What is beyond the
// device's end is zero.
base::StatusOr<SuperblockBytes> ReadSuperblock(const std::string& device, off_t offset);

// Returns the number at `offset`, in the byte order of the file system.
template <typename Number>
Number NumberAt(const SuperblockBytes& superblock, size_t offset) {
  Number number;
  std::memcpy(&number, superblock.data() + offset, sizeof(number));
  return number;
}

}  // namespace berth::platform
