// A store of a file whose calls fail or wait on command, for a server in another process.
#pragma once

#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <new>

#include "base/unique_fd.h"
#include "blockexport/file_store.h"

namespace berth::blockexport {

// The commands, in memory that both processes share. Make it before the fork.
class StoreCommands {
 public:
  StoreCommands()
      : shared_(new(mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_ANONYMOUS, -1, 0)) Shared) {}
  ~StoreCommands() { munmap(shared_, sizeof(Shared)); }
  StoreCommands(const StoreCommands&) = delete;
  StoreCommands& operator=(const StoreCommands&) = delete;

  // 0, or the error of each call.
  std::atomic<int>& reads() { return shared_->reads; }
  std::atomic<int>& writes() { return shared_->writes; }
  std::atomic<int>& flushes() { return shared_->flushes; }
  std::atomic<int>& zeroes() { return shared_->zeroes; }
  // Each read and write at this offset waits until it is released; -1: none.
  std::atomic<int64_t>& held_offset() { return shared_->held_offset; }
  // Gets one count for each call that begins to wait.
  int arrivals() const { return arrivals_.get(); }
  // Lets `count` calls go on.
  void Release(uint64_t count) {
    [[maybe_unused]] const ssize_t put = write(releases_.get(), &count, sizeof count);
  }

  void PassHold(int64_t offset) {
    if (offset != shared_->held_offset) return;
    const uint64_t one = 1;
    uint64_t released = 0;
    if (write(arrivals_.get(), &one, sizeof one) != sizeof one) return;
    while (read(releases_.get(), &released, sizeof released) < 0) {
    }
  }

 private:
  struct Shared {
    std::atomic<int> reads{0}, writes{0}, flushes{0}, zeroes{0};
    std::atomic<int64_t> held_offset{-1};
  };
  Shared* const shared_;
  const base::UniqueFd arrivals_{eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE)};
  const base::UniqueFd releases_{eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE)};
};

class FakeStore : public BlockStore {
 public:
  FakeStore(std::unique_ptr<FileStore> file, StoreCommands& commands)
      : file_(std::move(file)), commands_(commands) {}

  int64_t size_bytes() const override { return file_->size_bytes(); }
  bool read_only() const override { return file_->read_only(); }
  int Read(int64_t offset, std::span<char> into) override {
    commands_.PassHold(offset);
    const int error = commands_.reads();
    return error != 0 ? error : file_->Read(offset, into);
  }
  int Write(int64_t offset, std::span<const char> from) override {
    commands_.PassHold(offset);
    const int error = commands_.writes();
    return error != 0 ? error : file_->Write(offset, from);
  }
  bool Begin(Transfer& transfer) override {
    const bool plain = commands_.reads() == 0 && commands_.writes() == 0 &&
                       commands_.held_offset() != transfer.offset;
    return plain && file_->Begin(transfer);
  }
  int Flush() override {
    const int error = commands_.flushes();
    return error != 0 ? error : file_->Flush();
  }
  int WriteZeroes(int64_t offset, int64_t length) override {
    const int error = commands_.zeroes();
    return error != 0 ? error : file_->WriteZeroes(offset, length);
  }
  base::Status Refresh() override { return file_->Refresh(); }

 private:
  const std::unique_ptr<FileStore> file_;
  StoreCommands& commands_;
};

}  // namespace berth::blockexport
