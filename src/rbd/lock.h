// The exclusive lock of an image: who may write.
//
// librbd can give the lock to whoever asks for it, as QEMU lets it do, so that two nodes write in
// turns and neither notices. Berth takes it with rbd_lock_acquire, after which librbd refuses all
// who ask, until the image is closed.
//
// The lock of a client that does not answer is broken, after that client is on the blocklist, only
// if it was a call that died (snapshot, grow, delete; dead_client.h); never that of a process that
// serves a volume, because only the volume's fence decides that such a process is done
// (docs/design.md, rule 14).
#pragma once

#include <string>

#include "base/status.h"
#include "rbd/image.h"

namespace berth::rbd {

// Takes the lock of `image`, which was opened for writing. FAILED_PRECONDITION: another client has
// it; the message says which. The caller limits the time, because librbd waits for a client that
// takes the lock in the same moment and then does not answer.
base::Status AcquireLock(const Image& image);

// Ends the lock and the watch of a call that died. FAILED_PRECONDITION: another client than such a
// call and this one has the lock of the image; the message says which.
base::Status EnsureUnlocked(const Image& image);

// Takes the lock of `image` if it is free. If another client has it, checks that librbd can ask
// that client to make a snapshot for this one, so that it keeps the lock. FAILED_PRECONDITION: that
// client does not answer the cluster, so that only its fence ends its lock, or is the kernel's
// driver, which does nothing for others.
base::Status PrepareSnapshot(const Image& image);

// Ends the lock of a call that died. If another client has the lock, checks that librbd can ask
// that client to grow the image. FAILED_PRECONDITION: as for PrepareSnapshot.
base::Status PrepareGrowth(const Image& image);

}  // namespace berth::rbd
