// Lists the loop devices in use, and waits only for a bounded time for the file systems that hold
// their images. The kernel asks these for an image's inode, so a file system that no longer answers
// would block the caller.
//
// It changes one thing: it makes a device node that is missing in /dev. Thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "platform/devices/loop_device.h"

namespace berth::platform {

struct LoopEntry {
  LoopDevice loop;
  std::string image_path;  // in this mount namespace; ends in " (deleted)" if the file is deleted
  std::string label;       // given when it was attached (LoopOptions::label)
  uint64_t sequence = 0;   // no other attachment of this boot has this number (diskseq)
  uint64_t size_limit = 0;
  bool autoclear = false;  // the kernel detaches it when its last user closes it
  // Whether the image's file system gave the inode in time; if not, `loop.backing` and `label` are
  // unknown.
  bool answered = false;
};

// Lists the devices whose image path `wanted` accepts, by device number; an empty `wanted` accepts
// all. It asks the file systems of all images and waits for them for `timeout` together. If one of
// them does not answer, it asks each alone, and waits for each for `timeout` again. A device that
// is detached meanwhile is left out; a lack of descriptors is an error of the whole list.
base::StatusOr<std::vector<LoopEntry>> ListLoopEntries(
    const std::function<bool(std::string_view image_path)>& wanted,
    std::chrono::milliseconds timeout = std::chrono::seconds(2));

// Tells whether a file is attached to a loop device such as "loop3". It opens nothing.
base::StatusOr<bool> HasImage(std::string_view device);

// Reads the present attachment number of a block device such as "/dev/loop3". 0: there is no such
// device. An error: it is not known.
base::StatusOr<uint64_t> ReadDiskSequence(std::string_view device);

}  // namespace berth::platform
