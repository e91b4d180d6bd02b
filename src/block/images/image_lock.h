// Locks of image files: open file description locks (fcntl(2)), which last as long as the open file
// that they were taken on. A process, a loop device, a FUSE server or an NBD server may hold that
// open file. Where several nodes share a folder, its file system has to pass the locks between the
// nodes; folder_locks.h finds whether it does.
//
//             bytes of the image          the byte kWritersByte, beyond any image
//   writer    exclusive                   exclusive
//   reader    shared                      -
//   writers   shared                      shared        (a file system made for several nodes)
//   copy      shared                      exclusive     (nobody writes meanwhile)
//   client    -                           exclusive     (writes by an NBD server)
//   clients   -                           shared        (read, or several write, by such a server)
//
// The server of a client may itself have the image open with locks of its own program, such as
// QEMU's on some of its first bytes. So a client locks no bytes of the image.
#pragma once

#include <sys/types.h>

#include "base/status.h"

namespace berth::block {

enum class ImageLock { kWriter, kReader, kSharedWriter, kCopy, kClient, kSharedClient };

inline constexpr off_t kWritersByte = off_t{1} << 62;

// Takes the lock without waiting, and makes system calls only. Returns 0 or an errno; EAGAIN: a
// lock of another holder conflicts with it. After an error, a part of the lock may be held until
// the file is closed.
int LockImage(int fd, ImageLock lock);

// Finds whether another open file holds a lock of the image; locks held through `fd` itself do not
// count. Makes system calls only. Returns 0 or an errno.
int ReadImageLock(int fd, bool& locked);
// Whether a lock of another holder conflicts with `lock`.
base::StatusOr<bool> HasConflictingLock(int fd, ImageLock lock);

}  // namespace berth::block
