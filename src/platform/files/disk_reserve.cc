#include "platform/files/disk_reserve.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>

#include "base/log.h"
#include "base/text.h"
#include "base/unique_fd.h"
#include "platform/errno.h"

namespace berth::platform {
namespace {

using base::Quote;

constexpr std::string_view kReserveName = ".berth-reserve";
// A file system with less than this is full for a program that starts or repeats a write.
constexpr int64_t kFullBelow = int64_t{1} << 20;

struct DiskRoom {
  int64_t total = 0;
  int64_t free = 0;  // for this process
};

// Returns how many blocks this process can still write. ext4 keeps blocks for root, a twentieth of
// them by default, so that root's writes succeed long after those of others fail. From root too it
// keeps a fiftieth for its own books, at most 4096 blocks (fs/ext4/super.c).
uint64_t CountFreeBlocks(const std::string& folder, const struct statvfs& room) {
  struct statfs st;
  if (geteuid() != 0 || statfs(folder.c_str(), &st) != 0 || st.f_type != EXT4_SUPER_MAGIC) {
    return room.f_bavail;
  }
  const uint64_t kept = std::min<uint64_t>(room.f_blocks / 50, 4096);
  return std::max<uint64_t>(room.f_bavail, room.f_bfree > kept ? room.f_bfree - kept : 0);
}

std::optional<DiskRoom> ReadDiskRoom(const std::string& folder) {
  struct statvfs st;
  if (statvfs(folder.c_str(), &st) != 0) return std::nullopt;
  const auto unit = static_cast<int64_t>(st.f_frsize);
  return DiskRoom{.total = unit * static_cast<int64_t>(st.f_blocks),
                  .free = unit * static_cast<int64_t>(CountFreeBlocks(folder, st))};
}

// The reserve's file in `folder` or the nearest folder above it on the same file system; "": none.
// `folder` may be a file or missing.
std::string FindReserve(std::string folder) {
  std::optional<dev_t> device;
  while (!folder.empty()) {
    struct stat st;
    if (stat(folder.c_str(), &st) == 0 && S_ISDIR(st.st_mode)) {
      if (device.has_value() && *device != st.st_dev) return "";
      device = st.st_dev;
      std::string path = fmt::format("{}/{}", folder, kReserveName);
      if (lstat(path.c_str(), &st) == 0 && S_ISREG(st.st_mode)) return path;
    }
    const size_t slash = folder.rfind('/');
    if (slash == std::string::npos) return "";
    folder.resize(slash);
  }
  return "";
}

// Returns how many bytes are kept in the file; 0: the reserve was given up; nullopt: it is no
// reserve.
std::optional<int64_t> ReadReserveSize(const std::string& path) {
  struct stat st;
  if (lstat(path.c_str(), &st) != 0 || !S_ISREG(st.st_mode)) return std::nullopt;
  return static_cast<int64_t>(st.st_size);
}

bool IsReserveKept(const std::string& path) { return ReadReserveSize(path).value_or(0) > 0; }

// Empties the file unless it is a symlink or has another name as well: whoever may write the folder
// could otherwise have this process empty any file.
bool EmptyReserveFile(const std::string& path) {
  const base::UniqueFd fd(open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW));
  struct stat st;
  return fd.valid() && fstat(fd.get(), &st) == 0 && S_ISREG(st.st_mode) && st.st_nlink == 1 &&
         ftruncate(fd.get(), 0) == 0;
}

bool GiveUpReserveFile(const std::string& path) {
  const std::optional<int64_t> size = ReadReserveSize(path);
  const std::optional<DiskRoom> room = ReadDiskRoom(std::string(base::FolderOf(path)));
  if (!size.has_value() || !room.has_value()) return false;
  // Another writer may have given it up since the caller's write failed.
  if (*size == 0) return room->free >= kFullBelow;
  if (room->free >= *size) return false;
  if (!EmptyReserveFile(path)) return false;
  LOG_WARNING("the file system of {} is full: gave up the {} bytes that were kept for deletions",
              Quote(path), *size);
  return true;
}

}  // namespace

bool GiveUpReserve(const std::string& path) {
  const std::string reserve = FindReserve(path);
  return !reserve.empty() && GiveUpReserveFile(reserve);
}

bool HasReserve(const std::string& path) { return !FindReserve(path).empty(); }

DiskReserve::DiskReserve(const Options& options)
    : options_(options), path_(fmt::format("{}/{}", options.folder, kReserveName)) {}

base::StatusOr<std::unique_ptr<DiskReserve>> DiskReserve::Open(const Options& options) {
  Options fitting = options;
  const std::optional<DiskRoom> room = ReadDiskRoom(options.folder);
  if (!room.has_value()) {
    return ErrnoError(errno, fmt::format("read the free space of {}", Quote(options.folder)));
  }
  fitting.bytes = std::min(options.bytes, room->total / 16);
  std::unique_ptr<DiskReserve> reserve(new DiskReserve(fitting));
  if (room->free < kFullBelow) {
    GiveUpReserveFile(reserve->path_);
  } else if (const base::Status made = reserve->MakeIfRoom(); !made.ok()) {
    LOG_WARNING("no room is kept for deletions: {}", base::ToString(made));
  }
  reserve->thread_ = std::jthread([one = reserve.get()] {
    pthread_setname_np(pthread_self(), "disk-reserve");
    one->CheckLoop();
  });
  return reserve;
}

DiskReserve::~DiskReserve() {
  base::MutexLock lock(mutex_);
  stopping_ = true;
  wake_.NotifyAll();
}

bool DiskReserve::GiveUp() const { return GiveUpReserveFile(path_); }

bool DiskReserve::IsGivenUp() const { return ReadReserveSize(path_) == 0; }

base::Status DiskReserve::MakeIfRoom() const {
  // Some file systems do not say how large they are.
  if (options_.bytes <= 0 || IsReserveKept(path_)) return base::OkStatus();
  const std::optional<DiskRoom> room = ReadDiskRoom(options_.folder);
  if (!room.has_value() || room->free < 2 * options_.bytes) return base::OkStatus();
  const std::string context = fmt::format("make {}", Quote(path_));
  const base::UniqueFd fd(
      open(path_.c_str(), O_WRONLY | O_CREAT | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd.valid()) return ErrnoError(errno, context);
  // glibc writes zeros where the file system cannot allocate without them.
  const int error = posix_fallocate(fd.get(), 0, options_.bytes);
  if (error == 0) return base::OkStatus();
  // An empty file says that the reserve was given up because the disk is full.
  if ((error == ENOSPC ? ftruncate(fd.get(), 0) : unlink(path_.c_str())) != 0) {
    LOG_WARNING("cannot empty {}", Quote(path_));
  }
  return ErrnoError(error, context);
}

void DiskReserve::CheckLoop() {
  base::MutexLock lock(mutex_);
  while (!stopping_) {
    wake_.WaitUntil(mutex_, std::chrono::steady_clock::now() + options_.check);
    if (stopping_ || IsReserveKept(path_)) continue;
    if (const base::Status made = MakeIfRoom(); !made.ok()) {
      LOG_WARNING("no room is kept for deletions: {}", base::ToString(made));
    } else if (IsReserveKept(path_)) {
      LOG_INFO("{} bytes are kept for deletions in {}", options_.bytes, Quote(path_));
    }
  }
}

}  // namespace berth::platform
