// Opens and lists the entries of a folder without leaving its mount. Walks over volumes use these
// functions, because a container owns a volume's content and may change it during the walk.
#pragma once

#include <functional>
#include <string>

#include "base/status.h"
#include "base/unique_fd.h"

namespace berth::platform {

// Opens `name` in the folder `parent`. Returns an invalid descriptor with errno EXDEV if something
// is mounted there, and ELOOP if it is a symlink (with O_PATH in `flags` the symlink itself is
// opened). The kernel refuses before it asks the file system behind a mount, which may hang.
base::UniqueFd OpenWithinMount(int parent, const char* name, int flags);

// Calls `visit` with the names in the folder `fd` (O_PATH is enough), without "." and "..", in no
// order; at most `limit` (0: all). Returns 0 or an errno.
int ForEachName(int fd, size_t limit, const std::function<void(const char* name)>& visit);
// As above, with the type of each: DT_DIR, DT_REG, ...; DT_UNKNOWN if the file system does not say.
int ForEachEntry(int fd, size_t limit,
                 const std::function<void(const char* name, unsigned char type)>& visit);

}  // namespace berth::platform
