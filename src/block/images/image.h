// Makes, checks, resizes and removes image files. Each change is durable when its function returns,
// except that of MakeImage.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"
#include "base/unique_fd.h"
#include "block/record.h"

namespace berth::block {

// Makes the empty file `path`. Call FinishImage once its content is complete. ALREADY_EXISTS;
// RESOURCE_EXHAUSTED: the disk is full.
base::StatusOr<base::UniqueFd> MakeImage(const std::string& path);

// Syncs the image and its folder, and gives the identity of the file.
base::StatusOr<ImageIdentity> FinishImage(const base::UniqueFd& image, const std::string& path,
                                          const std::string& boot_id);

// The file system that the pool is on now. An image's recorded identity is compared with it.
struct PoolPlace {
  uint64_t device = 0;  // st_dev of its folder
  std::string boot_id;
};

// Opens the image that `record` describes with `flags` (O_RDONLY or O_RDWR), and checks that it is
// the recorded file. It is opened in a child process, because its file system may have died.
// DATA_LOSS: it is missing, is another file, or is shorter than the record says; of another file,
// the message says `advice`.
// DEADLINE_EXCEEDED: its file system does not answer.
base::StatusOr<base::UniqueFd> OpenImage(
    const std::string& path, const Record& record, const PoolPlace& place, int flags,
    std::string_view advice = "put the original file back, or give the volume up");

// The length that the image's file has at least.
int64_t LeastBytes(const Record& record);
// DATA_LOSS: the image `path` has fewer bytes.
base::Status CheckLength(const std::string& path, int64_t bytes, int64_t least_bytes);

// Removes the image that `record` describes; OK if it is missing. FAILED_PRECONDITION: another file
// than the recorded one has its name; that file is not removed.
base::Status RemoveImage(const std::string& path, const Record& record, const PoolPlace& place);

// The bytes that a file occupies on the disk; 0 if it does not exist or cannot be read.
int64_t ReadAllocatedBytes(const std::string& path);

// If the image is shorter than `size` bytes, extends it to `size` with a hole and syncs it.
base::Status ExtendImage(const base::UniqueFd& image, int64_t size);

// Drops all content: the image is then a hole of `size` bytes. Syncs it.
base::Status EmptyImage(const base::UniqueFd& image, int64_t size);

}  // namespace berth::block
