// The file of a UNIX socket at which this process listens. A listener that ends in order removes
// its file, so that clients see at once that nobody is there. After a crash the file stays, and
// rpc::ListenAt replaces it.
#pragma once

#include <sys/types.h>

#include <string>

namespace berth::rpc {

class SocketFile {
 public:
  SocketFile() = default;
  // The file at `path`, which this process has bound.
  explicit SocketFile(std::string path);
  // Removes the file, unless another process has replaced it since.
  ~SocketFile();
  SocketFile(SocketFile&& other) noexcept;
  SocketFile& operator=(SocketFile&& other) noexcept;

 private:
  std::string path_;  // empty: none
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

}  // namespace berth::rpc
