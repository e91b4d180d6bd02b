// Parts of volumes for containers: each is bind-mounted at a place of its own, which no name in the
// volume can change, and which a container's bind mount names as its source.
//
//   /grafts/<volume>/<number>   a folder or a file of the volume
//
// The functions may block, so they run in a child (child_call.h).
#pragma once

#include <string>

#include "base/ipc/message.h"

namespace berth::guest {

// Where the graft with this number is.
std::string GraftPlace(const std::string& volume, size_t number);

// Mounts what is at `path` of the volume that is mounted at `root` at `place`, and replies `place`.
// Folders that are missing are made with the mode of the volume's root. What is mounted there
// already stays if it is the same; else another file has taken its place in the volume, and is
// mounted instead. PERMISSION_DENIED: the path leads out of the volume, or to a device.
base::ipc::Message MakeGraft(const std::string& root, const std::string& path,
                             const std::string& place);

// Unmounts all grafts of a volume. 0 or an errno.
int RemoveGrafts(const std::string& volume);

// Whether a file system is mounted at `path`.
bool IsMounted(const std::string& path);

}  // namespace berth::guest
