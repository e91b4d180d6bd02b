// Decides how large a volume becomes.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/status.h"

namespace berth::block {

// The capacity range of a CSI request (CapacityRange), in bytes; 0: not given. Equal values ask for
// exactly that size.
struct SizeRange {
  int64_t required = 0;
  int64_t limit = 0;
};

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kDefaultSize = 1024 * kMiB;  // if the request gives no size
constexpr int64_t kSizeStep = 4096;            // images are whole blocks of the largest sector size

// The smallest size of a volume with the file system `fs_type`; "": a raw block volume. It is at
// least what mkfs accepts.
int64_t MinimumSize(std::string_view fs_type);

// The size for `range`, at least `minimum` and a multiple of kSizeStep. OUT_OF_RANGE: no size fits.
// INVALID_ARGUMENT: `range` is not a valid range.
base::StatusOr<int64_t> ChooseSize(const SizeRange& range, int64_t minimum);

// Whether a volume of `size` bytes satisfies `range`.
bool Satisfies(int64_t size, const SizeRange& range);

}  // namespace berth::block
