#include "block/space.h"

#include <errno.h>
#include <sys/statvfs.h>

#include <algorithm>

#include "base/log.h"
#include "block/sizes.h"
#include "platform/errno.h"

namespace berth::block {

int64_t Space::reserve() const { return std::min(64 * kMiB, total / 50); }

base::StatusOr<Space> ReadSpace(const std::string& folder) {
  struct statvfs st;
  if (statvfs(folder.c_str(), &st) != 0) {
    return platform::ErrnoError(errno, "read the size of pool " + base::Quote(folder));
  }
  const auto unit = static_cast<int64_t>(st.f_frsize);
  return Space{.total = unit * static_cast<int64_t>(st.f_blocks),
               .free = unit * static_cast<int64_t>(st.f_bavail)};
}

}  // namespace berth::block
