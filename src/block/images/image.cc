#include "block/images/image.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <chrono>

#include "base/log.h"
#include "base/text.h"
#include "platform/errno.h"
#include "platform/files/durable_file.h"
#include "platform/files/record_files.h"
#include "platform/processes/child.h"

namespace berth::block {
namespace {

constexpr std::chrono::seconds kImageOpenTime{10};  // of the file system that has the image

base::Status SyncFolderOf(const std::string& path) {
  const std::string folder(base::FolderOf(path));
  const base::UniqueFd fd(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid() || fsync(fd.get()) != 0) {
    return platform::ErrnoError(errno, "sync folder " + base::Quote(folder));
  }
  return base::OkStatus();
}

base::Status NotTheImageError(const std::string& path, std::string_view why) {
  return base::Error(base::StatusCode::kDataLoss, "image {} {}", base::Quote(path), why);
}

// Within one boot the device number is exact. Over a boot it may change, but the image stays on the
// pool's own file system.
bool IsRecorded(const struct stat& st, const Record& record, const PoolPlace& place) {
  const bool same_boot = platform::IsThisBoot(record.image.boot_id, place.boot_id);
  return S_ISREG(st.st_mode) && st.st_ino == record.image.inode && st.st_dev == place.device &&
         (!same_boot || st.st_dev == record.image.device);
}

}  // namespace

base::StatusOr<base::UniqueFd> MakeImage(const std::string& path) {
  base::UniqueFd fd(open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!fd.valid()) return platform::ErrnoError(errno, "make image " + base::Quote(path));
  return fd;
}

base::StatusOr<ImageIdentity> FinishImage(const base::UniqueFd& image, const std::string& path,
                                          const std::string& boot_id) {
  if (fsync(image.get()) != 0)
    return platform::ErrnoError(errno, "sync image " + base::Quote(path));
  RETURN_IF_ERROR(SyncFolderOf(path));
  struct stat st;
  if (fstat(image.get(), &st) != 0) return platform::ErrnoError(errno, "stat " + base::Quote(path));
  return ImageIdentity{.device = st.st_dev, .inode = st.st_ino, .boot_id = boot_id};
}

base::StatusOr<base::UniqueFd> OpenImage(const std::string& path, const Record& record,
                                         const PoolPlace& place, int flags,
                                         std::string_view advice) {
  const std::string context = "open image " + base::Quote(path);
  ASSIGN_OR_RETURN(platform::OpenedInChild opened,
                   platform::OpenInChild(context, kImageOpenTime, [path, flags] {
                     const int fd = open(path.c_str(), flags | O_NOFOLLOW | O_CLOEXEC);
                     return fd < 0 ? -errno : fd;
                   }));
  if (opened.error == ENOENT) return NotTheImageError(path, "is missing");
  if (opened.error == ELOOP) return NotTheImageError(path, "is a symbolic link");
  if (opened.error != 0) return platform::ErrnoError(opened.error, context);
  struct stat st;
  if (fstat(opened.fd.get(), &st) != 0) {
    return platform::ErrnoError(errno, "stat " + base::Quote(path));
  }
  if (!IsRecorded(st, record, place)) {
    return NotTheImageError(
        path, fmt::format("is another file than the one recorded (inode {}, was {}): {}", st.st_ino,
                          record.image.inode, advice));
  }
  RETURN_IF_ERROR(CheckLength(path, st.st_size, LeastBytes(record)));
  return std::move(opened.fd);
}

int64_t LeastBytes(const Record& record) {
  return record.growing_from > 0 ? record.growing_from : record.size_bytes;
}

base::Status CheckLength(const std::string& path, int64_t bytes, int64_t least_bytes) {
  if (bytes >= least_bytes) return base::OkStatus();
  return NotTheImageError(path, fmt::format("is {} bytes long instead of {}", bytes, least_bytes));
}

base::Status RemoveImage(const std::string& path, const Record& record, const PoolPlace& place) {
  struct stat st;
  if (lstat(path.c_str(), &st) != 0) {
    if (errno == ENOENT) return base::OkStatus();
    return platform::ErrnoError(errno, "stat " + base::Quote(path));
  }
  // Before the state is `ready` for the first time, the record has no identity yet. The file is the
  // pool's own then, because the record exists.
  if (record.image.inode != 0 && !IsRecorded(st, record, place)) {
    return base::Error(
        base::StatusCode::kFailedPrecondition,
        "image {} is another file than the one recorded (inode {}, was {}) and is not "
        "removed: move it away first",
        base::Quote(path), st.st_ino, record.image.inode);
  }
  return platform::RemoveDurably<"block.image">(path);
}

int64_t ReadAllocatedBytes(const std::string& path) {
  struct stat st;
  return lstat(path.c_str(), &st) == 0 ? st.st_blocks * 512 : 0;
}

base::Status ExtendImage(const base::UniqueFd& image, int64_t size) {
  struct stat st;
  if (fstat(image.get(), &st) != 0) return platform::ErrnoError(errno, "stat an image");
  if (st.st_size >= size) return base::OkStatus();
  if (ftruncate(image.get(), size) != 0 || fsync(image.get()) != 0) {
    return platform::ErrnoError(errno, fmt::format("grow an image to {} bytes", size));
  }
  return base::OkStatus();
}

base::Status EmptyImage(const base::UniqueFd& image, int64_t size) {
  if (ftruncate(image.get(), 0) != 0 || ftruncate(image.get(), size) != 0 ||
      fsync(image.get()) != 0) {
    return platform::ErrnoError(errno, "empty an image");
  }
  return base::OkStatus();
}

}  // namespace berth::block
