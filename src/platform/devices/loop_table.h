// Lists the loop devices in use without waiting for the file systems that hold their images. The
// kernel asks those for an image's inode, and a file system that no longer answers blocks the
// caller.
//
// Read-only. Thread-safe.
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
  std::string image_path;  // as this mount namespace sees it; ends in " (deleted)" if it is
  std::string label;       // given when it was attached (LoopOptions::label)
  uint64_t sequence = 0;   // no other attachment of this boot has this number (diskseq)
  uint64_t size_limit = 0;
  bool autoclear = false;  // goes with its last user
  // Whether the image's file system told its inode in time; if not, `loop.backing` and `label` are
  // unknown.
  bool answered = false;
};

// The devices whose image path `wanted` accepts; an empty `wanted` accepts all. It waits at most
// `timeout` for the file system of one image.
base::StatusOr<std::vector<LoopEntry>> LookAtLoops(
    const std::function<bool(std::string_view image_path)>& wanted,
    std::chrono::milliseconds timeout = std::chrono::seconds(2));

// The present attachment number of a block device such as "/dev/loop3"; 0: there is no such device.
uint64_t DiskSequence(std::string_view device);

}  // namespace berth::platform
