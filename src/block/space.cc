#include "block/space.h"

#include <errno.h>
#include <sys/statvfs.h>

#include <algorithm>

#include "base/log.h"
#include "block/sizes.h"
#include "platform/errno.h"

namespace berth::block {

base::StatusOr<Space> ReadSpace(const std::string& folder, std::optional<int64_t> keep_free) {
  struct statvfs st;
  if (statvfs(folder.c_str(), &st) != 0) {
    return platform::ErrnoError(errno, "read the size of pool " + base::Quote(folder));
  }
  const auto unit = static_cast<int64_t>(st.f_frsize);
  const int64_t total = unit * static_cast<int64_t>(st.f_blocks);
  return Space{.total = total,
               .free = unit * static_cast<int64_t>(st.f_bavail),
               .kept = keep_free.value_or(std::min(64 * kMiB, total / 50))};
}

}  // namespace berth::block
