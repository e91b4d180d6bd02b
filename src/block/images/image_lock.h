// Locks of image files: open file description locks (fcntl(2)), which last as long as the open file
// does that they were taken on, whoever holds it: a process, a loop device, a FUSE or NBD server.
// In a folder that is shared by several nodes, its file system carries them from node to node.
//
//             bytes of the image          the byte kWritersByte, beyond any image
//   writer    exclusive                   exclusive
//   reader    shared                      -
//   writers   shared                      shared        (a file system made for several nodes)
//   copy      shared                      exclusive     (nobody writes meanwhile)
#pragma once

#include <sys/types.h>

#include "base/status.h"

namespace berth::block {

enum class ImageLock { kWriter, kReader, kSharedWriter, kCopy };

inline constexpr off_t kWritersByte = off_t{1} << 62;

// Takes the lock without waiting, by system calls alone. 0, or an errno: EAGAIN where another's
// stands against it.
int LockImage(int fd, ImageLock lock);

// Whether anybody has a lock of the image, but for what is held through `fd` itself.
base::StatusOr<bool> HasImageLock(int fd);
// Whether a lock stands against `lock`.
base::StatusOr<bool> IsAgainst(int fd, ImageLock lock);

}  // namespace berth::block
