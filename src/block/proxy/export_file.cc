#include "block/proxy/export_file.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>

#include "base/log.h"
#include "block/images/image_lock.h"
#include "block/proxy/fuse_control.h"
#include "platform/devices/loop_table.h"
#include "platform/errno.h"
#include "platform/mounts/mounter.h"
#include "platform/processes/child.h"

namespace berth::block::proxy {

using base::Error;
using base::Quote;
using base::StatusCode;

namespace {

constexpr std::chrono::seconds kFileAnswerTime{10};  // of a file system

}  // namespace

base::StatusOr<base::UniqueFd> OpenImage(const Volume& volume) {
  if (volume.path.empty()) return base::UniqueFd();
  const std::string context = fmt::format("open image {}", Quote(volume.path));
  const bool alone = !volume.read_only && !volume.shared;
  const ImageLock lock = !volume.server.empty()
                             ? alone ? ImageLock::kClient : ImageLock::kSharedClient
                         : volume.read_only ? ImageLock::kReader
                         : volume.shared    ? ImageLock::kSharedWriter
                                            : ImageLock::kWriter;
  const int flags = volume.read_only ? O_RDONLY : O_RDWR;
  ASSIGN_OR_RETURN(
      platform::OpenedInChild opened,
      platform::OpenInChild(context, kFileAnswerTime, [path = volume.path, flags, lock] {
        const int fd = open(path.c_str(), flags | O_CLOEXEC | O_NOFOLLOW);
        if (fd < 0) return -errno;
        const int error = LockImage(fd, lock);
        return error == 0 ? fd : -error;
      }));
  if (opened.error == EAGAIN) {
    return Error(StatusCode::kFailedPrecondition, "image {} is locked by another holder",
                 Quote(volume.path));
  }
  if (opened.error != 0) return platform::ErrnoError(opened.error, context);
  struct stat st;
  if (fstat(opened.fd.get(), &st) != 0) return platform::ErrnoError(errno, context);
  if (!S_ISREG(st.st_mode) || st.st_dev != volume.device || st.st_ino != volume.inode ||
      st.st_nlink == 0) {
    return Error(StatusCode::kDataLoss, "{}: it is another file (inode {}) than was asked for ({})",
                 context, st.st_ino, volume.inode);
  }
  return std::move(opened.fd);
}

base::StatusOr<Shown> InspectFile(const std::string& path, const std::string& proxy_folder) {
  struct Seen {
    uint64_t device;
    int64_t size;
  };
  ASSIGN_OR_RETURN(
      const Seen seen,
      platform::AskChild<Seen>(
          fmt::format("inspect {}", Quote(path)), kFileAnswerTime, [path](Seen& seen) {
            struct statx st = {};
            if (statx(AT_FDCWD, path.c_str(), AT_STATX_FORCE_SYNC | AT_SYMLINK_NOFOLLOW,
                      STATX_BASIC_STATS, &st) != 0) {
              return errno;
            }
            seen.device = makedev(st.stx_dev_major, st.stx_dev_minor);
            seen.size = static_cast<int64_t>(st.stx_size);
            return 0;
          }));
  struct stat folder;
  if (stat(proxy_folder.c_str(), &folder) != 0) {
    return platform::ErrnoError(errno, "stat " + Quote(proxy_folder));
  }
  if (seen.device == folder.st_dev) {
    return Error(StatusCode::kUnavailable, "nothing is mounted at {}", Quote(path));
  }
  return Shown{.path = path, .device = seen.device, .size_bytes = seen.size};
}

base::Status ShowSizeToKernel(const std::string& path, int64_t size_bytes) {
  return platform::RunInChild(fmt::format("show the size of {} to the kernel", Quote(path)),
                              kFileAnswerTime, [path, size_bytes] {
                                const int fd =
                                    open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
                                if (fd < 0) return errno;
                                const bool known = lseek(fd, 0, SEEK_END) == size_bytes;
                                close(fd);
                                // The kernel takes the size from the answer to this request always
                                // (fs/fuse/dir.c, fuse_do_setattr).
                                return known || truncate(path.c_str(), size_bytes) == 0 ? 0 : errno;
                              });
}

base::StatusOr<bool> IsShownByLoop(const std::string& store_folder, const std::string& image) {
  const std::string folder = store_folder + "/";
  const std::string name = "/" + image;
  ASSIGN_OR_RETURN(const auto loops, platform::ListLoopEntries([&](std::string_view path) {
                     return path.starts_with(folder) &&
                            (path.ends_with(name) || path.ends_with(name + " (deleted)"));
                   }));
  return !loops.empty();
}

void AbortFuseOf(const std::string& proxy_folder, const std::string& file) {
  const auto table = platform::NewMounter()->List();
  if (!table.ok()) return;
  const platform::MountEntry* mount = platform::FindMount(*table, file);
  if (mount != nullptr) AbortFuse(proxy_folder, makedev(mount->major, mount->minor));
}

base::Status UnmountFile(const std::string& file) {
  return platform::RunInChild(fmt::format("unmount {}", Quote(file)), kFileAnswerTime, [file] {
    while (umount2(file.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW) == 0) {
    }
    return errno == EINVAL || errno == ENOENT ? 0 : errno;
  });
}

}  // namespace berth::block::proxy
