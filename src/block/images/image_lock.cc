#include "block/images/image_lock.h"

#include <fcntl.h>

#include <cerrno>

#include "platform/errno.h"

namespace berth::block {
namespace {

// F_UNLCK: no lock.
struct LockTypes {
  short image;
  short writers;
};

LockTypes LockTypesOf(ImageLock lock) {
  switch (lock) {
    case ImageLock::kWriter:
      return {F_WRLCK, F_WRLCK};
    case ImageLock::kReader:
      return {F_RDLCK, F_UNLCK};
    case ImageLock::kSharedWriter:
      return {F_RDLCK, F_RDLCK};
    case ImageLock::kCopy:
      return {F_RDLCK, F_WRLCK};
    case ImageLock::kClient:
      return {F_UNLCK, F_WRLCK};
    case ImageLock::kSharedClient:
      return {F_UNLCK, F_RDLCK};
  }
  return {F_WRLCK, F_WRLCK};
}

struct flock MakeRange(short type, off_t start, off_t length) {
  struct flock range = {};
  range.l_type = type;
  range.l_whence = SEEK_SET;
  range.l_start = start;
  range.l_len = length;
  return range;
}

// Whether a lock of another open file conflicts with `range`.
base::StatusOr<bool> HasConflict(int fd, struct flock range) {
  if (range.l_type == F_UNLCK) return false;
  if (fcntl(fd, F_OFD_GETLK, &range) != 0) {
    return platform::ErrnoError(errno, "read the locks of an image");
  }
  return range.l_type != F_UNLCK;
}

}  // namespace

int LockImage(int fd, ImageLock lock) {
  const LockTypes types = LockTypesOf(lock);
  struct flock image = MakeRange(types.image, 0, kWritersByte);
  if (types.image != F_UNLCK && fcntl(fd, F_OFD_SETLK, &image) != 0) {
    return errno == EACCES ? EAGAIN : errno;
  }
  if (types.writers == F_UNLCK) return 0;
  struct flock writers = MakeRange(types.writers, kWritersByte, 1);
  if (fcntl(fd, F_OFD_SETLK, &writers) == 0) return 0;
  return errno == EACCES ? EAGAIN : errno;
}

int ReadImageLock(int fd, bool& locked) {
  struct flock image = MakeRange(F_WRLCK, 0, 0);
  if (fcntl(fd, F_OFD_GETLK, &image) != 0) return errno;
  locked = image.l_type != F_UNLCK;
  return 0;
}

base::StatusOr<bool> HasConflictingLock(int fd, ImageLock lock) {
  const LockTypes types = LockTypesOf(lock);
  ASSIGN_OR_RETURN(const bool image, HasConflict(fd, MakeRange(types.image, 0, kWritersByte)));
  if (image) return true;
  return HasConflict(fd, MakeRange(types.writers, kWritersByte, 1));
}

}  // namespace berth::block
