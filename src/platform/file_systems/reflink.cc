#include "platform/file_systems/reflink.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "base/log.h"
#include "base/unique_fd.h"
#include "platform/errno.h"

namespace berth::platform {
namespace {

using base::StatusCode;

constexpr off_t kStepBytes = 16 << 20;
constexpr size_t kBufferBytes = 1 << 20;

bool CannotShare(int error) {
  return error == EOPNOTSUPP || error == EXDEV || error == EINVAL || error == ENOTTY ||
         error == ENOSYS || error == EPERM;
}

base::Status CheckCopyLimits(const CopyOptions& options) {
  if (options.cancelled && options.cancelled()) {
    return base::Error(StatusCode::kCancelled, "copy image: cancelled");
  }
  if (std::chrono::steady_clock::now() < options.deadline) return base::OkStatus();
  return base::Error(StatusCode::kDeadlineExceeded, "copy image: not done in time");
}

base::Status CopyThroughBuffer(int from, int to, off_t at, off_t end) {
  std::vector<char> buffer(kBufferBytes);
  while (at < end) {
    const size_t want = std::min<size_t>(buffer.size(), static_cast<size_t>(end - at));
    const ssize_t n = pread(from, buffer.data(), want, at);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoError(errno, "copy image: read");
    if (n == 0) return base::OkStatus();  // it shrank: the rest of the copy stays a hole
    for (ssize_t done = 0; done < n;) {
      const ssize_t m = pwrite(to, buffer.data() + done, static_cast<size_t>(n - done), at + done);
      if (m < 0 && errno == EINTR) continue;
      if (m <= 0) return ErrnoError(m < 0 ? errno : EIO, "copy image: write");
      done += m;
    }
    at += n;
  }
  return base::OkStatus();
}

// Copies allocated bytes [at, end), of at most one step.
base::Status CopyStep(int from, int to, off_t at, off_t end) {
  while (at < end) {
    off_t in = at, out = at;
    const ssize_t n = copy_file_range(from, &in, to, &out, static_cast<size_t>(end - at), 0);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && CannotShare(errno)) return CopyThroughBuffer(from, to, at, end);
    if (n < 0) return ErrnoError(errno, "copy image");
    if (n == 0) return base::OkStatus();
    at += n;
  }
  return base::OkStatus();
}

base::Status CopySparse(int from, int to, off_t size, const CopyOptions& options) {
  for (off_t at = 0; at < size;) {
    const off_t data = lseek(from, at, SEEK_DATA);
    if (data < 0 && errno == ENXIO) break;  // holes up to the end
    if (data < 0) return ErrnoError(errno, "copy image: find data");
    off_t hole = lseek(from, data, SEEK_HOLE);
    if (hole < 0) return ErrnoError(errno, "copy image: find holes");
    hole = std::min(hole, size);
    for (at = data; at < hole; at = std::min(at + kStepBytes, hole)) {
      RETURN_IF_ERROR(CheckCopyLimits(options));
      const off_t end = std::min(at + kStepBytes, hole);
      RETURN_IF_ERROR(CopyStep(from, to, at, end));
      if (options.report) options.report(static_cast<double>(end) / static_cast<double>(size));
    }
    at = std::max(at, hole);
  }
  return base::OkStatus();
}

}  // namespace

base::StatusOr<CopyMethod> CopyImage(int from, int to, const CopyOptions& options) {
  RETURN_IF_ERROR(CheckCopyLimits(options));
  struct stat st;
  if (fstat(from, &st) != 0) return ErrnoError(errno, "copy image: stat");
  CopyMethod method = CopyMethod::kSparseCopy;
  if (options.reflink && ioctl(to, FICLONE, from) == 0) {
    method = CopyMethod::kReflink;
  } else {
    if (options.reflink && !CannotShare(errno)) return ErrnoError(errno, "clone image");
    // The size is set first, so that what is not written stays a hole, also after the last data.
    if (ftruncate(to, st.st_size) != 0) return ErrnoError(errno, "copy image: set the size");
    RETURN_IF_ERROR(CopySparse(from, to, st.st_size, options));
  }
  if (fsync(to) != 0) return ErrnoError(errno, "copy image: fsync");
  return method;
}

base::StatusOr<bool> CanReflink(const std::string& folder) {
  const std::string what = fmt::format("try to share extents in {}", base::Quote(folder));
  const base::UniqueFd from(open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (!from.valid()) {
    if (errno == EOPNOTSUPP) return false;
    return ErrnoError(errno, what);
  }
  const base::UniqueFd to(open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (!to.valid()) return ErrnoError(errno, what);
  const std::vector<char> block(4096, 'x');
  if (write(from.get(), block.data(), block.size()) < 0) return ErrnoError(errno, what);
  if (ioctl(to.get(), FICLONE, from.get()) == 0) return true;
  if (CannotShare(errno)) return false;
  return ErrnoError(errno, what);
}

}  // namespace berth::platform
