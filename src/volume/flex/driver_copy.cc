#include "volume/flex/driver_copy.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <thread>
#include <vector>

#include "base/files/whole_file.h"
#include "base/ids.h"
#include "base/log.h"
#include "base/sha256.h"
#include "platform/errno.h"
#include "platform/files/folder_walk.h"

namespace berth::volume {
namespace {

using base::Error;
using base::Quote;
using base::Status;
using base::StatusCode;
using base::StatusOr;
using base::UniqueFd;
using platform::ErrnoError;

constexpr size_t kChunk = size_t{256} << 10;
// How long a copy waits for children that were forked while it was open for writing. If one takes
// longer, the copy fails. The next copy is a new file, which that child does not have open.
constexpr std::chrono::milliseconds kMaxChildStart(200);

Status BeingWrittenError(const std::string& path) {
  return Error(StatusCode::kUnavailable, "{} is being written", Quote(path));
}

// A read lease on a file for as long as the object lives, if the file system has leases.
class ReadLease {
 public:
  explicit ReadLease(int fd) : fd_(fd) {
    // The kernel signals when the lease is broken. SIGURG is ignored by default, while SIGIO would
    // end the process. The signal is set before the lease, so that SIGIO can never come.
    fcntl(fd_, F_SETSIG, SIGURG);
    error_ = fcntl(fd_, F_SETLEASE, F_RDLCK) == 0 ? 0 : errno;
  }
  ~ReadLease() {
    // close(2) alone would not end the lease, because a child that is being started may share the
    // descriptor.
    if (error_ == 0) fcntl(fd_, F_SETLEASE, F_UNLCK);
  }
  ReadLease(const ReadLease&) = delete;
  ReadLease& operator=(const ReadLease&) = delete;

  // Whether a process has the file open for writing, or has tried to open it for writing since the
  // lease began.
  bool Broken() const {
    if (error_ == EAGAIN) return true;
    return error_ == 0 && fcntl(fd_, F_GETLEASE) != F_RDLCK;
  }

 private:
  const int fd_;
  int error_;
};

bool HasIdentity(int fd, const FileIdentity& identity) {
  struct stat st;
  return fstat(fd, &st) == 0 && IdentityOf(st) == identity;
}

// Copies until the end of `from`; returns the content's digest.
StatusOr<std::string> CopyContent(int from, int to) {
  std::vector<char> buffer(kChunk);
  base::Sha256 digest;
  for (;;) {
    const ssize_t n = read(from, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoError(errno, "read");
    if (n == 0) return digest.FinishHex();
    digest.Add({buffer.data(), static_cast<size_t>(n)});
    const int error = base::WriteAll(to, {buffer.data(), static_cast<size_t>(n)});
    if (error != 0) return ErrnoError(error, "write the copy");
  }
}

// Waits until no process has the copy open for writing, because such a program cannot be run
// (ETXTBSY). A child that was forked during the write has the copy open until it calls exec.
Status AwaitRunnable(int folder, const std::string& path) {
  const UniqueFd fd(openat(folder, path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd.valid()) return ErrnoError(errno, "open the copy");
  const auto deadline = std::chrono::steady_clock::now() + kMaxChildStart;
  while (ReadLease(fd.get()).Broken()) {
    if (std::chrono::steady_clock::now() > deadline) {
      return Error(StatusCode::kUnavailable, "a process holds the copy of {} open", Quote(path));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return base::OkStatus();
}

class Copier {
 public:
  Copier(int from, int to) : from_(from), to_(to) {}

  // Returns what the file adds to the folder's digest.
  StatusOr<std::string> Copy(const DriverFile& file) {
    const char* path = file.path.c_str();
    switch (file.kind) {
      case DriverFile::Kind::kFolder:
        if (mkdirat(to_, path, 0755) != 0) return ErrnoError(errno, "make its copy");
        return std::string();
      case DriverFile::Kind::kLink:
        if (symlinkat(file.target.c_str(), to_, path) != 0) {
          return ErrnoError(errno, "make the symlink");
        }
        return base::Sha256Hex(file.target);
      case DriverFile::Kind::kFile:
        return CopyFile(file);
    }
    return base::OkStatus();
  }

 private:
  StatusOr<std::string> CopyFile(const DriverFile& file) {
    // O_NONBLOCK is set, because a FIFO may have replaced the file.
    const UniqueFd from =
        platform::OpenWithinMount(from_, file.path.c_str(), O_RDONLY | O_NONBLOCK);
    if (!from.valid()) return BeingWrittenError(file.path);
    const ReadLease lease(from.get());
    if (lease.Broken() || !HasIdentity(from.get(), file.identity)) {
      return BeingWrittenError(file.path);
    }
    std::string digest;
    {
      const UniqueFd to(openat(to_, file.path.c_str(),
                               O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
      if (!to.valid()) return ErrnoError(errno, "make its copy");
      ASSIGN_OR_RETURN(digest, CopyContent(from.get(), to.get()));
      if (fchmod(to.get(), file.mode & 0755) != 0) return ErrnoError(errno, "chmod its copy");
    }
    if (lease.Broken() || !HasIdentity(from.get(), file.identity)) {
      return BeingWrittenError(file.path);
    }
    if ((file.mode & 0111) != 0) RETURN_IF_ERROR(AwaitRunnable(to_, file.path));
    return digest;
  }

  const int from_, to_;
};

}  // namespace

StatusOr<DriverDigests> CopyDriver(int drivers, const DriverFolder& found, int to) {
  const UniqueFd from =
      platform::OpenWithinMount(drivers, found.folder.c_str(), O_RDONLY | O_DIRECTORY);
  if (!from.valid()) return BeingWrittenError(found.folder);
  Copier copier(from.get(), to);
  const DriverFile* const executable = &found.executable();
  DriverDigests digests;
  std::string all;
  for (const DriverFile& file : found.files) {
    StatusOr<std::string> digest = copier.Copy(file);
    RETURN_IF_ERROR_WITH(digest, fmt::format("copy {}", Quote(file.path)));
    all += fmt::format("{} {:04o} {} {} {}\n", static_cast<int>(file.kind), file.mode,
                       file.path.size(), file.path, *digest);
    if (&file == executable) digests.executable = *digest;
  }
  digests.folder = base::Sha256Hex(all);
  return digests;
}

}  // namespace berth::volume
