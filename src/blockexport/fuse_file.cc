#include "blockexport/fuse_file.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/log.h"
#include "base/unique_fd.h"
#include "blockexport/failure_log.h"
#include "blockexport/request_threads.h"
#include "blockexport/small_transfers.h"
#include "platform/errno.h"

namespace berth::blockexport {

using base::Quote;
using base::StatusCode;

namespace {

constexpr double kSizeKnown = 1.0;  // seconds for which the kernel believes a size
// Of one call to the store, so that each call ends within the store's deadline.
constexpr int64_t kLongestZeroing = int64_t{64} << 20;

// The error that the user of the file sees for the store's `error`, which is logged.
int ReportError(const char* what, int64_t offset, int error) {
  static FailureLog failures;  // a process serves one volume
  const auto omitted = failures.CountFailure(what, error, std::chrono::steady_clock::now());
  if (omitted) {
    LOG_ERROR("{} at {}: {} ({} such failures since the last line)", what, offset, strerror(error),
              *omitted);
  }
  return error == ENOSPC ? ENOSPC : EIO;
}

// Answers a read or write.
void AnswerTransfer(fuse_req_t request, const Transfer& transfer, int error) {
  if (error != 0) {
    fuse_reply_err(request,
                   ReportError(transfer.writes ? "write" : "read", transfer.offset, error));
  } else if (transfer.writes) {
    fuse_reply_write(request, transfer.data.size());
  } else {
    fuse_reply_buf(request, transfer.data.data(), transfer.data.size());
  }
}

}  // namespace

struct FuseFile::Served {
  BlockStore& store;
  SmallTransfers transfers{AnswerTransfer};
};

namespace {

FuseFile::Served& ServedBy(fuse_req_t request) {
  return *static_cast<FuseFile::Served*>(fuse_req_userdata(request));
}
BlockStore& StoreOf(fuse_req_t request) { return ServedBy(request).store; }

void Initialise(void* /*served*/, fuse_conn_info* connection) {
  // Without FUSE_CAP_ASYNC_DIO the kernel sends the requests of a loop device one after the other.
  // Splicing is off, because the store needs the data in memory.
  connection->want = connection->capable & FUSE_CAP_ASYNC_DIO;
  connection->max_write = kLargestTransfer;
  connection->max_background = kMostTransfers;
  connection->congestion_threshold = kMostTransfers;
}

struct stat AttributesOf(const BlockStore& store) {
  struct stat st = {};
  st.st_ino = FUSE_ROOT_ID;
  st.st_mode = S_IFREG | (store.read_only() ? 0400 : 0600);
  st.st_nlink = 1;
  st.st_size = store.size_bytes();
  st.st_blksize = kBufferAlignment;
  st.st_blocks = st.st_size / 512;
  return st;
}

void GetAttributes(fuse_req_t request, fuse_ino_t /*inode*/, fuse_file_info* /*file*/) {
  const struct stat st = AttributesOf(StoreOf(request));
  fuse_reply_attr(request, &st, kSizeKnown);
}

void SetAttributes(fuse_req_t request, fuse_ino_t /*inode*/, struct stat* wanted, int which,
                   fuse_file_info* /*file*/) {
  const struct stat st = AttributesOf(StoreOf(request));
  // The size that the volume has is accepted, because the kernel then takes it from the answer for
  // certain (ShowSizeToKernel in block/proxy/export_file.h).
  if ((which & FUSE_SET_ATTR_SIZE) != 0 && wanted->st_size == st.st_size) {
    fuse_reply_attr(request, &st, kSizeKnown);
    return;
  }
  // Also an open with O_TRUNC comes here: a volume is not truncated.
  fuse_reply_err(request, EPERM);
}

void Open(fuse_req_t request, fuse_ino_t /*inode*/, fuse_file_info* file) {
  if (StoreOf(request).read_only() && (file->flags & O_ACCMODE) != O_RDONLY) {
    fuse_reply_err(request, EROFS);
    return;
  }
  file->direct_io = 1;
  fuse_reply_open(request, file);
}

void Read(fuse_req_t request, fuse_ino_t /*inode*/, size_t size, off_t offset,
          fuse_file_info* /*file*/) {
  BlockStore& store = StoreOf(request);
  const std::span<char> buffer = RequestThreads::ReadBuffer();
  const int64_t left = std::max<int64_t>(store.size_bytes() - offset, 0);
  const auto count = static_cast<size_t>(
      std::min({static_cast<int64_t>(size), static_cast<int64_t>(buffer.size()), left}));
  if (count != 0 && ServedBy(request).transfers.BeginRead(store, request, offset, count)) return;
  RequestThreads::PrepareToWait();
  const int error = count == 0 ? 0 : store.Read(offset, buffer.first(count));
  AnswerTransfer(request, {.offset = offset, .data = buffer.first(count)}, error);
}

void Write(fuse_req_t request, fuse_ino_t /*inode*/, const char* data, size_t size, off_t offset,
           fuse_file_info* /*file*/) {
  BlockStore& store = StoreOf(request);
  if (offset + static_cast<int64_t>(size) > store.size_bytes()) {
    fuse_reply_err(request, ENOSPC);
    return;
  }
  RequestThreads::PrepareToWait();
  const int error = store.Write(offset, {data, size});
  if (error != 0) {
    fuse_reply_err(request, ReportError("write", offset, error));
    return;
  }
  fuse_reply_write(request, size);
}

void Sync(fuse_req_t request, fuse_ino_t /*inode*/, int /*data_only*/, fuse_file_info* /*file*/) {
  RequestThreads::PrepareToWait();
  const int error = StoreOf(request).Flush();
  fuse_reply_err(request, error == 0 ? 0 : ReportError("flush", 0, error));
}

void Allocate(fuse_req_t request, fuse_ino_t /*inode*/, int mode, off_t offset, off_t length,
              fuse_file_info* /*file*/) {
  BlockStore& store = StoreOf(request);
  const bool zeroes = mode == (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE) ||
                      (mode & ~FALLOC_FL_KEEP_SIZE) == FALLOC_FL_ZERO_RANGE;
  if (!zeroes) {
    fuse_reply_err(request, EOPNOTSUPP);
    return;
  }
  const bool keeps_size = (mode & FALLOC_FL_KEEP_SIZE) != 0;
  if (!keeps_size && offset + length > store.size_bytes()) {
    fuse_reply_err(request, ENOSPC);
    return;
  }
  RequestThreads::PrepareToWait();
  const int64_t end = std::min<int64_t>(offset + length, store.size_bytes());
  for (int64_t at = offset; at < end; at += kLongestZeroing) {
    const int error = store.WriteZeroes(at, std::min(end - at, kLongestZeroing));
    if (error == EOPNOTSUPP) {
      fuse_reply_err(request, EOPNOTSUPP);
      return;
    }
    if (error != 0) {
      fuse_reply_err(request, ReportError("zero a range", at, error));
      return;
    }
  }
  fuse_reply_err(request, 0);
}

void StatFileSystem(fuse_req_t request, fuse_ino_t /*inode*/) {
  const BlockStore& store = StoreOf(request);
  // A loop device takes the least size of its discards from here.
  struct statvfs st = {};
  st.f_bsize = kBufferAlignment;
  st.f_frsize = kBufferAlignment;
  st.f_blocks = static_cast<fsblkcnt_t>(store.size_bytes()) / kBufferAlignment;
  st.f_files = 1;
  st.f_namemax = 255;
  fuse_reply_statfs(request, &st);
}

constexpr fuse_lowlevel_ops kOperations = {.init = Initialise,
                                           .getattr = GetAttributes,
                                           .setattr = SetAttributes,
                                           .open = Open,
                                           .read = Read,
                                           .write = Write,
                                           .fsync = Sync,
                                           .statfs = StatFileSystem,
                                           .fallocate = Allocate};

// Mounts a FUSE connection over the file, and returns the connection.
base::StatusOr<base::UniqueFd> MountConnection(const std::string& path) {
  const std::string context = fmt::format("mount a FUSE file at {}", Quote(path));
  struct stat st;
  if (lstat(path.c_str(), &st) != 0) return platform::ErrnoError(errno, context);
  if (!S_ISREG(st.st_mode)) {
    return base::Error(StatusCode::kInvalidArgument, "{}: it is not a regular file", context);
  }
  base::UniqueFd connection(open("/dev/fuse", O_RDWR | O_CLOEXEC));
  if (!connection.valid()) return platform::ErrnoError(errno, "open /dev/fuse");
  const std::string options =
      fmt::format("fd={},rootmode={:o},user_id=0,group_id=0", connection.get(), S_IFREG);
  if (mount("berth-export", path.c_str(), "fuse.berth", MS_NOSUID | MS_NODEV | MS_NOEXEC,
            options.c_str()) != 0) {
    return platform::ErrnoError(errno, context);
  }
  return connection;
}

}  // namespace

base::StatusOr<std::unique_ptr<FuseFile>> FuseFile::Mount(const std::string& path,
                                                          BlockStore& store) {
  ASSIGN_OR_RETURN(base::UniqueFd connection, MountConnection(path));
  std::unique_ptr<Served> served(new Served{.store = store});
  char name[] = "berth-export";
  char* names[] = {name, nullptr};
  fuse_args arguments = FUSE_ARGS_INIT(1, names);
  fuse_session* session =
      fuse_session_new(&arguments, &kOperations, sizeof kOperations, served.get());
  fuse_opt_free_args(&arguments);
  // The name by which libfuse takes a connection that is mounted already.
  const std::string place = fmt::format("/dev/fd/{}", connection.get());
  if (session == nullptr || fuse_session_mount(session, place.c_str()) != 0) {
    if (session != nullptr) fuse_session_destroy(session);
    umount2(path.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW);
    return base::Error(StatusCode::kInternal, "libfuse refuses the connection of {}", Quote(path));
  }
  connection.Release();  // the session closes it
  return std::unique_ptr<FuseFile>(new FuseFile(path, std::move(served), session));
}

FuseFile::FuseFile(std::string path, std::unique_ptr<Served> served, fuse_session* session)
    : path_(std::move(path)), served_(std::move(served)), session_(session) {}

FuseFile::~FuseFile() {
  if (!AwaitTransfers(std::chrono::milliseconds(0))) std::_Exit(1);
  fuse_session_destroy(session_);
}

bool FuseFile::AwaitTransfers(std::chrono::milliseconds within) {
  return served_->transfers.AwaitAll(within);
}

void FuseFile::ShowNewSize() {
  // Only the attributes, because nothing is cached. -ENOENT: the kernel knows none.
  fuse_lowlevel_notify_inval_inode(session_, FUSE_ROOT_ID, -1, 0);
}

base::Status FuseFile::Unmount() const {
  if (umount2(path_.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW) == 0 || errno == EINVAL) {
    return base::OkStatus();
  }
  return platform::ErrnoError(errno, fmt::format("unmount {}", Quote(path_)));
}

}  // namespace berth::blockexport
