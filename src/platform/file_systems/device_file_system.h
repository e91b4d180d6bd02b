// The steps that make a device's file system ready for a volume: choose its type, make it if the
// device is blank, check it, and read how much of the device it uses.
//
// The callers decide what may be made or grown, and when, because they know what the volume should
// hold: block/prepare.h by the volume's record, blockagent/device_content.h by the note with the
// image. Local volumes and Flexvolumes use a device as they find it. Thread-safe for different
// devices.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "platform/file_systems/file_system.h"
#include "platform/processes/exec.h"

namespace berth::platform {

// The type with which `device` must be mounted: `asked` or, if that is empty, the type that the
// device holds, and ext4 for a blank one. FAILED_PRECONDITION: the device holds something that is
// no file system, or it does not hold `asked`, which is a type that cannot be made.
base::StatusOr<std::string> ChooseFileSystemType(const std::string& device,
                                                 const std::string& asked);
// The same for a caller that has probed the device: `found` is the result.
base::StatusOr<std::string> ChooseFileSystemType(const std::string& device,
                                                 const std::string& asked,
                                                 const std::optional<Signature>& found);

// Makes a file system of a type that the platform knows if the device is blank, and checks it. Does
// nothing for other types. The device must not be mounted.
base::Status PrepareFileSystem(Exec& exec, const std::string& device, const std::string& type);

// Runs the quick check of a file system that is about to be mounted, unless `superblock` shows that
// the file system needs none. nullopt: the superblock was not read since the last change. Returns
// whether `superblock` has shown that.
base::StatusOr<bool> CheckUnlessClean(Exec& exec, const std::string& device, const FileSystem& fs,
                                      const std::optional<SuperblockBytes>& superblock);

// Clears the superblock at the beginning of the device, because mkfs.btrfs refuses a UUID that it
// finds in use. Only for a device on which a mkfs was interrupted.
base::Status ClearUnfinishedFormat(const std::string& device);

// Returns how many bytes of its device a file system uses. Reads only the superblock, which a probe
// or the kernel has just read. A child process does it, because the back end may have died
// meanwhile.
base::StatusOr<int64_t> ReadFileSystemBytes(const FileSystem& fs, const std::string& device);

}  // namespace berth::platform
