// Paths held by descriptor, resolved so that no symlink leads out (openat2).
//
// Each path is resolved in a child with a deadline of ten seconds. DEADLINE_EXCEEDED: it leads
// through a file system that is dead.
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
// (RESOLVE_BENEATH, RESOLVE_NO_MAGICLINKS). PERMISSION_DENIED where one would.
base::StatusOr<base::UniqueFd> OpenBeneath(int root, std::string_view relative);

// As OpenBeneath, making missing folders on the way with `mode` (for a pod's subPath).
base::StatusOr<base::UniqueFd> MakeFoldersBeneath(int root, std::string_view relative, mode_t mode);

// Opens a folder with O_PATH|O_DIRECTORY, not through a symlink in its last part.
base::StatusOr<base::UniqueFd> OpenFolder(const std::string& path);

// "/proc/self/fd/N": names exactly what a descriptor holds, for mount calls in this process.
std::string ProcPath(const base::UniqueFd& fd);
// The descriptors of those paths that have the form of ProcPath.
std::vector<int> DescriptorsIn(std::initializer_list<std::string_view> paths);

}  // namespace berth::platform
