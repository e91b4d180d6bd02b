#include "blockexport/file_store.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <mutex>

#include "platform/errno.h"

namespace berth::blockexport {

namespace {

constexpr int64_t kUnit = kBufferAlignment;
// More than the kernel sends at once.
constexpr unsigned kMostUnderWay = 64;

bool IsAligned(int64_t offset, size_t length) {
  return offset % kUnit == 0 && length % kBufferAlignment == 0;
}

// Whether the file is on a file system that reads from a block device or from memory. A killed
// thread waits for the end of such a read, too, so one in the background keeps its process no
// longer.
bool IsOnDisk(int file) {
  struct statfs fs = {};
  if (fstatfs(file, &fs) != 0) return false;
  switch (static_cast<uint32_t>(fs.f_type)) {
    case EXT4_SUPER_MAGIC:
    case XFS_SUPER_MAGIC:
    case BTRFS_SUPER_MAGIC:
    case F2FS_SUPER_MAGIC:
    case OVERLAYFS_SUPER_MAGIC:  // what is written is in a folder of such a file system
    case TMPFS_MAGIC:
      return true;
    default:
      return false;
  }
}

// Memory for the whole units that hold a range of the volume, up to the volume's end.
class Blocks {
 public:
  Blocks(int64_t offset, size_t length, int64_t volume_size)
      : start_(offset / kUnit * kUnit),
        before_(static_cast<size_t>(offset - start_)),
        length_(length) {
    const int64_t end = offset + static_cast<int64_t>(length);
    const int64_t whole = (end + kUnit - 1) / kUnit * kUnit;
    size_ = static_cast<size_t>(std::max(std::min(whole, volume_size), end) - start_);
    data_.reset(static_cast<char*>(
        std::aligned_alloc(kBufferAlignment, static_cast<size_t>(whole - start_))));
  }
  int64_t start() const { return start_; }
  char* data() const { return data_.get(); }
  std::span<char> all() const { return {data(), size_}; }
  std::span<char> wanted() const { return all().subspan(before_, length_); }

 private:
  struct Free {
    void operator()(char* data) const { std::free(data); }
  };
  const int64_t start_;
  const size_t before_, length_;
  size_t size_ = 0;
  std::unique_ptr<char, Free> data_;
};

}  // namespace

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
  if (!IsOnDisk(store->file_.get())) return store;
  store->background_ = AioQueue::Open(store->file_.get(), kMostUnderWay,
                                      [raw = store.get()](Transfer& transfer, int64_t result) {
                                        raw->EndTransfer(transfer, result);
                                      });
  return store;
}

bool FileStore::Begin(Transfer& transfer) {
  if (background_ == nullptr || !IsAligned(transfer.offset, transfer.data.size())) return false;
  const std::shared_lock lock(edges_, std::try_to_lock);
  if (!lock.owns_lock()) return false;
  under_way_.fetch_add(1);
  if (background_->Begin(transfer)) return true;
  if (under_way_.fetch_sub(1) == 1) under_way_.notify_all();
  return false;
}

void FileStore::EndTransfer(Transfer& transfer, int64_t result) {
  int error = result < 0 ? static_cast<int>(-result) : 0;
  const bool partial = result >= 0 && result < static_cast<int64_t>(transfer.data.size());
  if (partial || error == EINTR || error == EAGAIN) {
    // The kernel made a part of it or, after a signal in io_submit(2), none: the whole is made
    // again.
    error = transfer.writes ? WriteAll(transfer.offset, transfer.data)
                            : ReadAll(transfer.offset, transfer.data);
  }
  if (under_way_.fetch_sub(1) == 1) under_way_.notify_all();
  transfer.ended(transfer, error);
}

std::unique_lock<std::shared_mutex> FileStore::LockAlone() {
  std::unique_lock lock(edges_);
  for (int count = under_way_; count != 0; count = under_way_) under_way_.wait(count);
  return lock;
}

int FileStore::Read(int64_t offset, std::span<char> into) {
  const std::shared_lock lock(edges_);
  if (IsAligned(offset, into.size())) return ReadAll(offset, into);
  Blocks blocks(offset, into.size(), size_);
  if (blocks.data() == nullptr) return ENOMEM;
  const int error = ReadAll(blocks.start(), blocks.all());
  if (error == 0) std::ranges::copy(blocks.wanted(), into.begin());
  return error;
}

int FileStore::Write(int64_t offset, std::span<const char> from) {
  if (IsAligned(offset, from.size())) {
    const std::shared_lock lock(edges_);
    return WriteAll(offset, from);
  }
  const std::unique_lock lock = LockAlone();
  Blocks blocks(offset, from.size(), size_);
  if (blocks.data() == nullptr) return ENOMEM;
  if (const int error = ReadAll(blocks.start(), blocks.all()); error != 0) return error;
  std::ranges::copy(from, blocks.wanted().begin());
  return WriteAll(blocks.start(), blocks.all());
}

int FileStore::ReadAll(int64_t offset, std::span<char> into) {
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

int FileStore::WriteAll(int64_t offset, std::span<const char> from) {
  while (!from.empty()) {
    const ssize_t put = pwrite(file_.get(), from.data(), from.size(), offset);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return put < 0 ? errno : EIO;
    offset += put;
    from = from.subspan(static_cast<size_t>(put));
  }
  return 0;
}

int FileStore::Flush() {
  while (fdatasync(file_.get()) != 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

int FileStore::WriteZeroes(int64_t offset, int64_t length) {
  std::shared_lock shared(edges_, std::defer_lock);
  std::unique_lock<std::shared_mutex> alone;
  if (IsAligned(offset, static_cast<size_t>(length))) {
    shared.lock();
  } else {
    alone = LockAlone();
  }
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
