// A volume that is stored in a regular file.
//
// Its I/O is direct: a write that was answered is in the file system below, never only in this
// node's page cache, so that nothing is written late by a node whose lock went to another one.
// The kernel makes small reads in the background only on file systems of block devices and of
// memory, because such a read keeps a killed process until it has ended. A file server of a
// network, or a process that serves FUSE, may never answer. There a thread waits for the read, and
// the kernel gives the read up where it can when the thread is killed.
//
// Disks with blocks of 4096 bytes refuse direct I/O of less, but FUSE splits a large request of a
// buffer that is not aligned at any multiple of 512. Such parts go through whole units of 4096.
#pragma once

#include <atomic>
#include <memory>
#include <shared_mutex>

#include "base/unique_fd.h"
#include "blockexport/aio_queue.h"
#include "blockexport/block_store.h"

namespace berth::blockexport {

class FileStore : public BlockStore {
 public:
  // Serves the open file. Its locks are held as long as the store exists, because the store does
  // all its I/O through this very descriptor. INVALID_ARGUMENT: it is not a regular file, or its
  // file system has no direct I/O.
  static base::StatusOr<std::unique_ptr<FileStore>> Open(base::UniqueFd file, bool read_only);

  int64_t size_bytes() const override { return size_; }
  bool read_only() const override { return read_only_; }
  int Read(int64_t offset, std::span<char> into) override;
  int Write(int64_t offset, std::span<const char> from) override;
  bool Begin(Transfer& transfer) override;
  int Flush() override;
  int WriteZeroes(int64_t offset, int64_t length) override;
  base::Status Refresh() override;

 private:
  FileStore(base::UniqueFd file, bool read_only) : file_(std::move(file)), read_only_(read_only) {}

  // Need what direct I/O needs: up to 4096 bytes of alignment.
  int ReadAll(int64_t offset, std::span<char> into);
  int WriteAll(int64_t offset, std::span<const char> from);
  // `result` is that of AioQueue.
  void EndTransfer(Transfer& transfer, int64_t result);
  // Takes edges_ alone, when no transfer is under way.
  std::unique_lock<std::shared_mutex> LockAlone();

  // Held alone while a write reads the units at its edges and writes them again, because a write
  // beside it to the same unit would be lost; shared by all requests of whole units. A transfer
  // counts in under_way_ in place of holding it to its end, because it ends on another thread.
  std::shared_mutex edges_;
  std::atomic<int> under_way_{0};
  const base::UniqueFd file_;
  const bool read_only_;
  std::atomic<int64_t> size_{0};
  // nullptr: the kernel refuses it, or the file system is of another kind.
  std::unique_ptr<AioQueue> background_;
};

}  // namespace berth::blockexport
