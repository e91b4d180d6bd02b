// The loop devices in use, without waiting for the file systems that their images are on: the
// kernel asks those for an image's inode, and one that answers no more holds up whoever asks.
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
  std::string image_path;  // as this mount namespace sees it; " (deleted)" behind it where it is
  std::string label;       // as it was attached with (LoopOptions::label)
  uint64_t sequence = 0;   // no other attachment of this boot has this number (diskseq)
  uint64_t size_limit = 0;
  bool autoclear = false;  // goes with its last user
  // The image's file system told in time which inode it is; if not, `loop.backing` and `label` are
  // not known.
  bool answered = false;
};

// Those whose image path `wanted` accepts; an empty `wanted` accepts all. `timeout` is how long one
// image's file system is waited for.
base::StatusOr<std::vector<LoopEntry>> LookAtLoops(
    const std::function<bool(std::string_view image_path)>& wanted,
    std::chrono::milliseconds timeout = std::chrono::seconds(2));

// The attachment number of a block device now: "/dev/loop3"; 0: there is no such device.
uint64_t DiskSequence(std::string_view device);

}  // namespace berth::platform
