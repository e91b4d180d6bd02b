#include "platform/walks/inode_scan.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#include <xfs/xfs.h>

#include <cerrno>
#include <cstddef>
#include <memory>
#include <span>
#include <sstream>
#include <string>

#include "base/log.h"
#include "base/unique_fd.h"
#include "platform/errno.h"
#include "platform/files/durable_file.h"

namespace berth::platform {
namespace {

using base::Error;
using base::Status;
using base::StatusCode;
using base::StatusOr;
using base::UniqueFd;

// To read an inode from a table takes a tenth of the time that a stat of a name takes.
constexpr uint64_t kTableInodesPerFile = 8;
constexpr uint64_t kAlwaysRead = 64 * 1024;
constexpr int kInodesBetweenLooks = 4096;  // at `cancelled`

Status NotRootError() {
  return Error(StatusCode::kUnimplemented, "the folder is not the root of its file system");
}

// Opens the node of a block device in this process's /dev.
StatusOr<UniqueFd> OpenDevice(dev_t number) {
  std::istringstream events(
      ReadFile(fmt::format("/sys/dev/block/{}:{}/uevent", major(number), minor(number)))
          .value_or(""));
  constexpr std::string_view kName = "DEVNAME=";
  for (std::string line; std::getline(events, line);) {
    if (!line.starts_with(kName)) continue;
    const std::string path = "/dev/" + line.substr(kName.size());
    UniqueFd device(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!device.valid()) return ErrnoError(errno, "open " + path);
    struct stat st;
    if (fstat(device.get(), &st) != 0 || !S_ISBLK(st.st_mode) || st.st_rdev != number) {
      return Error(StatusCode::kFailedPrecondition, "{} is another device", path);
    }
    return device;
  }
  return Error(StatusCode::kNotFound, "there is no block device {}:{}", major(number),
               minor(number));
}

// The request of XFS_IOC_BULKSTAT, with the buffer for its answer.
class XfsBulkStat {
 public:
  explicit XfsBulkStat(uint32_t at_once)
      : room_(std::make_unique<std::byte[]>(XFS_BULKSTAT_REQ_SIZE(at_once))),
        request_(new(room_.get()) xfs_bulkstat_req{}) {
    request_->hdr.icount = at_once;
  }
  // Reads from the inode that hdr.ino names, which the kernel advances. An empty result: there are
  // no more inodes.
  StatusOr<std::span<const xfs_bulkstat>> ReadNext(int in_file_system) {
    if (ioctl(in_file_system, XFS_IOC_BULKSTAT, request_) != 0) {
      return ErrnoError(errno, "XFS_IOC_BULKSTAT");
    }
    return std::span<const xfs_bulkstat>(request_->bulkstat, request_->hdr.ocount);
  }
  xfs_bulk_ireq& header() { return request_->hdr; }

 private:
  std::unique_ptr<std::byte[]> room_;
  xfs_bulkstat_req* request_;
};

StatusOr<bool> IsXfsRoot(int folder, uint64_t inode) {
  XfsBulkStat root(1);
  root.header().flags = XFS_BULK_IREQ_SPECIAL;
  root.header().ino = XFS_BULK_IREQ_SPECIAL_ROOT;
  ASSIGN_OR_RETURN(const auto found, root.ReadNext(folder));
  return found.size() == 1 && found[0].bs_ino == inode;
}

Status ForEachXfsInode(int root, uint64_t root_inode,
                       const std::function<bool(const InodeOwner&)>& visit) {
  const UniqueFd folder(openat(root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.valid()) return ErrnoError(errno, "open the root");
  ASSIGN_OR_RETURN(const bool is_root, IsXfsRoot(folder.get(), root_inode));
  if (!is_root) return NotRootError();
  XfsBulkStat inodes(1024);
  for (;;) {
    ASSIGN_OR_RETURN(const auto some, inodes.ReadNext(folder.get()));
    if (some.empty()) return base::OkStatus();
    for (const xfs_bulkstat& inode : some) {
      if (inode.bs_nlink == 0) continue;
      if (!visit({.number = inode.bs_ino, .mode = inode.bs_mode, .group = inode.bs_gid})) {
        return base::OkStatus();
      }
    }
  }
}

Status ForEachInode(int root, const struct stat& st,
                    const std::function<bool(const InodeOwner&)>& visit) {
  struct statfs fs;
  if (fstatfs(root, &fs) != 0) return ErrnoError(errno, "statfs");
  switch (fs.f_type) {
    case EXT4_SUPER_MAGIC: {
      if (st.st_ino != kExt4RootInode) return NotRootError();
      const uint64_t used = fs.f_files - fs.f_ffree;
      ASSIGN_OR_RETURN(const UniqueFd device, OpenDevice(st.st_dev));
      return ForEachExt4Inode(device.get(), used * kTableInodesPerFile + kAlwaysRead, visit);
    }
    case XFS_SUPER_MAGIC:
      return ForEachXfsInode(root, st.st_ino, visit);
    default:
      break;
  }
  return Error(StatusCode::kUnimplemented, "its inodes cannot be read in bulk");
}

}  // namespace

std::optional<bool> HoldsForEveryInode(int root,
                                       const std::function<bool(const InodeOwner&)>& holds,
                                       const std::function<bool()>& cancelled) {
  struct stat st;
  if (fstat(root, &st) != 0) return std::nullopt;
  // The folder must be among the inodes, with the owner that is seen here. This proves that these
  // are its file system's inodes, and that the mount does not map its group to another.
  bool seen = false, hold = true, stopped = false;
  int until_look = kInodesBetweenLooks;
  const Status read = ForEachInode(root, st, [&](const InodeOwner& inode) {
    if (--until_look == 0) {
      until_look = kInodesBetweenLooks;
      stopped = cancelled && cancelled();
    }
    if (inode.number == st.st_ino) seen = inode.mode == st.st_mode && inode.group == st.st_gid;
    hold = hold && holds(inode);
    return hold && !stopped;
  });
  if (!read.ok()) LOG_DEBUG("cannot read inodes in bulk: {}", base::ToString(read));
  if (!read.ok() || stopped) return std::nullopt;
  if (!hold) return false;
  return seen ? std::optional(true) : std::nullopt;
}

}  // namespace berth::platform
