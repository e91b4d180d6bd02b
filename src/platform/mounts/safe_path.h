// Opens paths in such a way that no symlink leads out of a folder (openat2), and returns
// descriptors.
//
// Each path is resolved in a child with a deadline of ten seconds. DEADLINE_EXCEEDED: it leads
// through a file system that does not answer.
#pragma once

#include <sys/types.h>

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/unique_fd.h"

namespace berth::platform {

// Opens `relative` beneath the folder `root` with O_PATH: no symlink and no ".." may lead out of it
// (RESOLVE_BENEATH, RESOLVE_NO_MAGICLINKS). PERMISSION_DENIED: one would, or the path is absolute.
// NOT_FOUND. "" opens the folder itself.
base::StatusOr<base::UniqueFd> OpenBeneath(int root, std::string_view relative);

// As OpenBeneath, but makes the missing folders of the path with `mode`, to which the umask does
// not apply (for a pod's subPath). PERMISSION_DENIED also for every "..".
base::StatusOr<base::UniqueFd> MakeFoldersBeneath(int root, std::string_view relative, mode_t mode);

// Opens a folder with O_PATH|O_DIRECTORY, not through a symlink in its last part.
base::StatusOr<base::UniqueFd> OpenFolder(const std::string& path);

// Returns "/proc/self/fd/N", which names exactly the file that the descriptor holds, for mount
// calls in this process.
std::string ProcPath(const base::UniqueFd& fd);
// Returns the descriptors of the paths that have the form of ProcPath, and skips other paths.
std::vector<int> ParseDescriptors(std::initializer_list<std::string_view> paths);

}  // namespace berth::platform
