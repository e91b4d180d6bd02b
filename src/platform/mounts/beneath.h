// Opens paths beneath a folder by system calls alone (openat2), so that no symlink and no ".."
// leads out of it. For children that share their parent's memory, and for the static programs;
// others use safe_path.h.
//
// Each function that opens returns a descriptor, or a negative errno. EXDEV or ELOOP: the path
// leads out of the folder, or through a magic link.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace berth::platform {

// Opens the relative `path` beneath the folder `root`. Async-signal-safe.
int OpenBelow(int root, const char* path, int flags);

// A folder on the way: its path from the root, and its name in its parent.
struct PathLevel {
  std::string prefix;
  std::string name;
};
// The folders of a relative path. Each prefix is resolved from the root, so that a symlink within
// the root may contain "..". nullopt: the path is absolute, or has a ".." or a zero byte.
std::optional<std::vector<PathLevel>> SplitPath(std::string_view relative);

// Makes the missing ones of the folders with `mode`, to which the umask does not apply, and opens
// the last. Async-signal-safe.
int MakeLevelsBelow(int root, const std::vector<PathLevel>& levels, mode_t mode);

}  // namespace berth::platform
