// Image files: made, checked, resized. Every function is one step that is durable when it returns.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "base/unique_fd.h"
#include "block/record.h"

namespace berth::block {

// Makes the empty file `path`; ALREADY_EXISTS, RESOURCE_EXHAUSTED on a full disk. Its name is
// synced by FinishImage, once its content is in.
base::StatusOr<base::UniqueFd> MakeImage(const std::string& path);

// Syncs the image and its folder and tells which file it is.
base::StatusOr<ImageIdentity> FinishImage(const base::UniqueFd& image, const std::string& path,
                                          const std::string& boot_id);

// Where the pool is now, which an image's recorded identity is held against.
struct PoolPlace {
  uint64_t device = 0;  // st_dev of its folder
  std::string boot_id;
};

// Opens the image that `record` describes, by `flags` (O_RDONLY or O_RDWR), after checking that it
// is the very file. DATA_LOSS: it is missing, is another file, or is shorter than it was when
// recorded.
base::StatusOr<base::UniqueFd> OpenImage(const std::string& path, const Record& record,
                                         const PoolPlace& place, int flags);

// Removes the image that `record` describes; OK if it is missing. FAILED_PRECONDITION: under its
// name is another file than recorded, which is left alone.
base::Status RemoveImage(const std::string& path, const Record& record, const PoolPlace& place);

// Bytes that a file occupies; 0 for one that is not there.
int64_t AllocatedBytes(const std::string& path);

// Makes the image `size` bytes long, if it is shorter, by a hole; synced.
base::Status ExtendImage(const base::UniqueFd& image, int64_t size);

// Drops all content: `size` bytes of nothing; synced.
base::Status EmptyImage(const base::UniqueFd& image, int64_t size);

}  // namespace berth::block
