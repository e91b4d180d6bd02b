// Loop devices: image files as block devices.
//
// A loop device is recognised by the (device, inode) of its backing file, never by its name, which
// the kernel gives to another file as soon as it is free. Functions are thread-safe; attaching one
// image from two threads at once gives two devices, so the caller serialises per image.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/unique_fd.h"

namespace berth::platform {

struct FileIdentity {
  dev_t dev = 0;
  ino_t ino = 0;
  bool operator==(const FileIdentity&) const = default;
};

// Of a file or folder; not through a symlink in its last part. NOT_FOUND.
base::StatusOr<FileIdentity> IdentifyFile(const std::string& path);

struct LoopDevice {
  std::string path;      // "/dev/loop3"
  dev_t device = 0;      // of the block device itself
  FileIdentity backing;  // of the image file
  bool read_only = false;
  bool direct_io = false;
  uint32_t block_size = 512;  // logical, in bytes
  uint64_t size = 0;          // bytes
};

struct LoopOptions {
  bool read_only = false;
  // Asked for, not demanded: where the image's file system cannot, pages are cached twice.
  bool direct_io = true;
  // 512 or 4096; 0: the least that direct I/O to the image allows. A file system remembers the size
  // it was made with and refuses a larger one, so whoever keeps an image keeps this number with it.
  uint32_t block_size = 0;
  // What the kernel keeps with the device for whoever asks (lo_file_name); at most 63 bytes, empty:
  // the image's path.
  std::string label;
};

// Attaches an image to a free loop device; it stays attached until DetachLoop (no autoclear).
// NOT_FOUND: no such image. RESOURCE_EXHAUSTED: no free loop device.
base::StatusOr<LoopDevice> AttachLoop(const std::string& image, const LoopOptions& options);

// As above, with an open image, whose access decides about that of the device. The kernel keeps the
// very open file, so that its open file description lock lasts as long as the device. In a child:
// an image's file system may have died since it was opened. DEADLINE_EXCEEDED: it may be attached
// or become so.
base::StatusOr<LoopDevice> AttachLoop(const base::UniqueFd& image, const LoopOptions& options,
                                      std::chrono::milliseconds timeout);

// All loop devices in use, or those whose backing file is `backing`.
base::StatusOr<std::vector<LoopDevice>> ListLoops();
base::StatusOr<std::vector<LoopDevice>> FindLoops(const FileIdentity& backing);

// Detaches. OK if `loop.path` has no backing file or another one by now. FAILED_PRECONDITION:
// mounted, or held open; it then stays attached.
base::Status DetachLoop(const LoopDevice& loop);
// Detaches the very attachment `sequence` (DiskSequence in loop_table.h), in children with a
// deadline and without asking the image's file system, which may be dead. One that is held open may
// then go with its last user.
base::Status DetachLoop(const LoopDevice& loop, uint64_t sequence,
                        std::chrono::milliseconds timeout);

// Makes the device as large as its backing file is now; gives the new size in bytes.
base::StatusOr<uint64_t> RefreshLoopSize(const LoopDevice& loop);

}  // namespace berth::platform
