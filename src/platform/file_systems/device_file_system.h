// The file system on a device that becomes a volume's: which type it is to have, made where the
// device is blank, checked, and how much of the device it takes.
//
// What may be made or grown, and when, is for those who know what a volume should hold:
// block/prepare.h goes by the volume's record, blockagent/device_content.h by what is noted with
// the image; local volumes and Flexvolumes take a device as they find it. Thread-safe for different
// devices.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "platform/file_systems/file_system.h"
#include "platform/processes/exec.h"

namespace berth::platform {

// The type that `device` is to be mounted with: `asked`, or if that is empty what the device holds,
// and ext4 for one that is blank. FAILED_PRECONDITION: it holds no file system, or one that is
// asked for and cannot be made is not there.
base::StatusOr<std::string> FileSystemTypeFor(const std::string& device, const std::string& asked);
// As above; `found` is what a probe of the device has said.
base::StatusOr<std::string> FileSystemTypeFor(const std::string& device, const std::string& asked,
                                              const std::optional<Signature>& found);

// Makes a file system of a type that the platform knows if the device is blank, and checks it.
// Nothing for other types. For a device that is not mounted.
base::Status PrepareFileSystem(Exec& exec, const std::string& device, const std::string& type);

// Takes off what tells a file system from nothing, so that mkfs does not find its own UUID in use,
// as that of btrfs does. Only for what a mkfs left that was cut short.
base::Status ClearUnfinishedFormat(const std::string& device);

// How many bytes of its device a file system takes, by one look at its superblock, which a probe or
// the kernel just read; in a child, because the back end may have died meanwhile.
base::StatusOr<int64_t> ReadFileSystemBytes(const FileSystem& fs, const std::string& device);

}  // namespace berth::platform
