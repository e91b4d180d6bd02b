// The FUSE file system that shows one volume: a single regular file, which is the root of its
// mount. It is for a loop device with direct I/O:
//
//   - nothing is cached, so that a process which lost its volume holds no data that is written
//   late;
//   - several reads and writes run at once (request_threads.h), each of up to kLargestTransfer;
//   - a hole that is punched, and a range that is zeroed, reads as zeroes;
//   - only root uses it (no allow_other), and its size changes only with the store's.
//
// The errors that users see are EIO, and ENOSPC where the storage is full, because the kernel gives
// other errors meanings of its own: after an ENOSYS it never calls fsync again and reports success.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "base/status.h"
#include "blockexport/block_store.h"
#include "blockexport/fuse.h"

namespace berth::blockexport {

class FuseFile {
 public:
  struct Served;  // what the handlers of requests use; fuse_file.cc

  // Mounts the file system over the existing file at `path`. `store` is borrowed. Requests wait
  // until threads receive them from session().
  static base::StatusOr<std::unique_ptr<FuseFile>> Mount(const std::string& path,
                                                         BlockStore& store);
  // Ends the connection: all its users get errors from then on. Does not unmount. Ends the process
  // if a transfer is under way, because its answer would need the connection.
  ~FuseFile();
  FuseFile(const FuseFile&) = delete;
  FuseFile& operator=(const FuseFile&) = delete;

  fuse_session& session() { return *session_; }
  // Waits until the transfers that the store makes in the background have ended. Call it when no
  // thread receives requests. False: one is still under way after `within`.
  bool AwaitTransfers(std::chrono::milliseconds within);
  // Makes the kernel ask for the size again when it is needed next. Thread-safe.
  void ShowNewSize();
  // Detaches the mount; those who have the file open keep it. OK if it is not mounted. Thread-safe.
  base::Status Unmount() const;

 private:
  FuseFile(std::string path, std::unique_ptr<Served> served, fuse_session* session);

  const std::string path_;
  const std::unique_ptr<Served> served_;
  fuse_session* const session_;
};

}  // namespace berth::blockexport
