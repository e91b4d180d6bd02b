#include "block/images/change_lock.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <thread>

#include "base/log.h"
#include "block/images/image_lock.h"
#include "platform/errno.h"

namespace berth::block {
namespace {

using base::Quote;
using std::chrono::steady_clock;

constexpr std::chrono::seconds kWait{10};
constexpr std::chrono::milliseconds kPause{5};

// A lock is valid only while its file still has its name, because the previous holder may have
// removed the file.
bool HasName(const base::UniqueFd& fd, const std::string& path) {
  struct stat held;
  struct stat named;
  return fstat(fd.get(), &held) == 0 && lstat(path.c_str(), &named) == 0 &&
         held.st_ino == named.st_ino && held.st_dev == named.st_dev;
}

}  // namespace

base::StatusOr<ChangeLock> ChangeLock::TakeLock(Paths paths, const std::string& image) {
  const auto deadline = steady_clock::now() + kWait;
  for (;;) {
    base::UniqueFd fd(open(paths.lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!fd.valid()) return platform::ErrnoError(errno, "open lock " + Quote(paths.lock));
    const int error = LockImage(fd.get(), ImageLock::kWriter);
    if (error == 0 && HasName(fd, paths.lock)) return ChangeLock(std::move(paths), std::move(fd));
    if (error != 0 && error != EAGAIN) {
      return platform::ErrnoError(error, "lock " + Quote(paths.lock));
    }
    if (steady_clock::now() > deadline) {
      return base::Error(base::StatusCode::kAborted, "image {} is being changed by another process",
                         Quote(image));
    }
    if (error == EAGAIN) std::this_thread::sleep_for(kPause);
  }
}

ChangeLock::~ChangeLock() {
  struct stat record;
  // The lock is still held here. So a process that waits for it sees later that the file lost its
  // name, and makes a new file.
  if (fd_.valid() && lstat(paths_.record.c_str(), &record) != 0 && errno == ENOENT) {
    unlink(paths_.lock.c_str());
  }
}

}  // namespace berth::block
