#include "rpc/socket_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <utility>

namespace berth::rpc {

SocketFile::SocketFile(std::string path) {
  struct stat info;
  if (lstat(path.c_str(), &info) != 0) return;
  path_ = std::move(path);
  device_ = info.st_dev;
  inode_ = info.st_ino;
}

SocketFile::~SocketFile() {
  if (path_.empty()) return;
  struct stat info;
  if (lstat(path_.c_str(), &info) == 0 && info.st_dev == device_ && info.st_ino == inode_) {
    unlink(path_.c_str());
  }
}

SocketFile::SocketFile(SocketFile&& other) noexcept { *this = std::move(other); }

SocketFile& SocketFile::operator=(SocketFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(device_, other.device_);
  std::swap(inode_, other.inode_);
  return *this;
}

}  // namespace berth::rpc
