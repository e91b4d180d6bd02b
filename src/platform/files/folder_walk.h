// Opening what is in a folder without leaving its mount: the common ground of walks over volumes,
// whose content is a container's and may change under the walk.
#pragma once

#include <functional>
#include <string>

#include "base/status.h"
#include "base/unique_fd.h"

namespace berth::platform {

// Opens `name` in the folder `parent`. Invalid with errno: EXDEV where something is mounted there,
// ELOOP where it is a symlink (with O_PATH in `flags` the symlink itself is opened). The kernel
// refuses before the file system behind a mount, which may hang, is asked anything.
base::UniqueFd OpenWithinMount(int parent, const char* name, int flags);

// Calls `visit` with the names in the folder `fd`, without "." and "..", in no order; at most
// `limit` (0: all). Gives 0, or an errno.
int ForEachName(int fd, size_t limit, const std::function<void(const char* name)>& visit);
// As above, with what each is: DT_DIR, DT_REG, ...; DT_UNKNOWN where the file system does not say.
int ForEachEntry(int fd, size_t limit,
                 const std::function<void(const char* name, unsigned char type)>& visit);

}  // namespace berth::platform
