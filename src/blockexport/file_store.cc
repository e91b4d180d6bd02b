#include "blockexport/file_store.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "platform/errno.h"

namespace berth::blockexport {

base::StatusOr<std::unique_ptr<FileStore>> FileStore::Open(base::UniqueFd file, bool read_only) {
  struct stat st;
  if (fstat(file.get(), &st) != 0) return platform::ErrnoError(errno, "stat the volume's file");
  if (!S_ISREG(st.st_mode)) {
    return base::Error(base::StatusCode::kInvalidArgument,
                       "the volume's file is not a regular file");
  }
  const int flags = fcntl(file.get(), F_GETFL);
  if (flags < 0 || fcntl(file.get(), F_SETFL, flags | O_DIRECT) != 0) {
    return platform::ErrnoError(errno, "use direct I/O on the volume's file");
  }
  std::unique_ptr<FileStore> store(new FileStore(std::move(file), read_only));
  store->size_ = st.st_size;
  return store;
}

int FileStore::Read(int64_t offset, std::span<char> into) {
  while (!into.empty()) {
    const ssize_t got = pread(file_.get(), into.data(), into.size(), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno;
    if (got == 0) return EIO;  // the file is shorter than it was
    offset += got;
    into = into.subspan(static_cast<size_t>(got));
  }
  return 0;
}

int FileStore::Write(int64_t offset, std::span<const char> from) {
  while (!from.empty()) {
    const ssize_t put = pwrite(file_.get(), from.data(), from.size(), offset);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return put < 0 ? errno : EIO;
    offset += put;
    from = from.subspan(static_cast<size_t>(put));
  }
  return 0;
}

int FileStore::Flush() { return fdatasync(file_.get()) == 0 ? 0 : errno; }

int FileStore::WriteZeroes(int64_t offset, int64_t length) {
  while (fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, length) != 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

base::Status FileStore::Refresh() {
  struct stat st;
  if (fstat(file_.get(), &st) != 0) return platform::ErrnoError(errno, "stat the volume's file");
  size_ = st.st_size;
  return base::OkStatus();
}

}  // namespace berth::blockexport
