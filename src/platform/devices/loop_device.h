// Loop devices: image files as block devices.
//
// A loop device is recognised by the (device, inode) of its backing file, never by its name, which
// the kernel gives to another file as soon as it is free. Functions are thread-safe. If two threads
// attach one image at once, it gets two devices, so the caller serialises the calls for each image.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/unique_fd.h"

namespace berth::platform {

struct FileIdentity {
  dev_t dev = 0;
  ino_t ino = 0;
  bool operator==(const FileIdentity&) const = default;
};

// Identifies a file or folder; a symlink in the last part of the path is not followed. NOT_FOUND.
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
  // Uses direct I/O if the image's file system supports it; else pages are cached twice.
  bool direct_io = true;
  // In bytes, 512 or 4096; 0: the least that direct I/O to the image allows, or 512 without direct
  // I/O. A file system remembers the size that it was made with and refuses a larger one, so the
  // owner of an image must store this number with the image.
  uint32_t block_size = 0;
  // A text that the kernel keeps with the device (lo_file_name) for every reader; at most 63 bytes.
  // Empty: the image's path.
  std::string label;
};

// Attaches an image to a free loop device; it stays attached until DetachLoop (no autoclear).
// NOT_FOUND: no such image. FAILED_PRECONDITION: it is not a regular file. RESOURCE_EXHAUSTED: no
// free loop device.
base::StatusOr<LoopDevice> AttachLoop(const std::string& image, const LoopOptions& options);

// As above, with an open image; an image that is open for reading only gives a read-only device.
// The kernel keeps this open file description, so a lock on it lasts as long as the device. The
// image is attached in a child, because its file system may have died since it was opened.
// DEADLINE_EXCEEDED: the outcome is unknown, and the image may still become attached.
base::StatusOr<LoopDevice> AttachLoop(const base::UniqueFd& image, const LoopOptions& options,
                                      std::chrono::milliseconds timeout);

// Lists the loop devices whose backing file is `backing`, by device number. `name` is its name:
// only devices whose images have that name are opened, so that other images and their file systems
// do not delay the caller. (A device that shows the file by another name, as after a hard link, is
// therefore not found; Berth makes none.) A device that is gone meanwhile is left out. Any other
// failure, such as a lack of descriptors, is an error of the whole list, because a caller that
// misses an image's device would attach or delete it while it is in use. UNAVAILABLE: the file
// system of an image of that name does not answer; the caller waits a few seconds for it
// (ListLoopEntries in loop_table.h).
base::StatusOr<std::vector<LoopDevice>> FindLoops(const FileIdentity& backing,
                                                  std::string_view name);

// Detaches. OK if `loop.path` has no backing file or another one by now. FAILED_PRECONDITION: it is
// mounted, or another process has it open; it then stays attached.
base::Status DetachLoop(const LoopDevice& loop);
// Detaches exactly the attachment `sequence` (ReadDiskSequence in loop_table.h), in children with a
// deadline, because the image's file system may be dead. If another process has the device open,
// the kernel may detach it only when that process closes it. DEADLINE_EXCEEDED: the outcome is
// unknown.
base::Status DetachLoop(const LoopDevice& loop, uint64_t sequence,
                        std::chrono::milliseconds timeout);

// Makes the device as large as its backing file is now; returns the new size in bytes.
// FAILED_PRECONDITION: the device no longer belongs to the image `loop.backing`.
base::StatusOr<uint64_t> RefreshLoopSize(const LoopDevice& loop);

}  // namespace berth::platform
