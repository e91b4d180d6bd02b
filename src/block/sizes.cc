#include "block/sizes.h"

#include <limits>

#include "platform/file_systems/file_system.h"

namespace berth::block {

int64_t MinimumSize(std::string_view fs_type) {
  const platform::FileSystem* fs = platform::FindFileSystem(fs_type);
  if (fs == nullptr) return kMiB;
  // Below this ext4 has no journal.
  return std::max(static_cast<int64_t>(fs->min_bytes()), 8 * kMiB);
}

base::StatusOr<int64_t> ChooseSize(const SizeRange& range, int64_t minimum) {
  if (range.required < 0 || range.limit < 0 || (range.limit > 0 && range.required > range.limit)) {
    return base::Error(base::StatusCode::kInvalidArgument,
                       "capacity range [{}, {}] is not valid: sizes must not be negative, and the "
                       "limit must not be below the required size",
                       range.required, range.limit);
  }
  int64_t size = range.required;
  if (size == 0) size = range.limit > 0 ? std::min(kDefaultSize, range.limit) : kDefaultSize;
  size = std::max(size, minimum);
  if (size > std::numeric_limits<int64_t>::max() - kSizeStep) {
    return base::Error(base::StatusCode::kOutOfRange, "{} bytes are more than an image can have",
                       size);
  }
  const int64_t rounded = (size + kSizeStep - 1) / kSizeStep * kSizeStep;
  if (range.limit == 0 || rounded <= range.limit) return rounded;
  // If rounding up exceeds the limit, rounding down is tried.
  const int64_t below = range.limit / kSizeStep * kSizeStep;
  if (below >= minimum && below >= range.required) return below;
  return base::Error(base::StatusCode::kOutOfRange,
                     "no volume size fits the capacity range [{}, {}]: at least {} bytes are "
                     "needed, in steps of {}",
                     range.required, range.limit, minimum, kSizeStep);
}

bool Satisfies(int64_t size, const SizeRange& range) {
  return size >= range.required && (range.limit == 0 || size <= range.limit);
}

}  // namespace berth::block
