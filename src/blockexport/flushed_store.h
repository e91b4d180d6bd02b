// A store whose failed flush is final: each later flush fails too.
//
// A storage that failed to flush may have dropped what it was sent, and its next flush then
// succeeds without that data. fsync(2) reports such a failure once; a later caller, such as the one
// who closes the volume, must not be told that all its writes are durable.
//
// Thread-safe. The store is borrowed.
#pragma once

#include <atomic>
#include <cerrno>

#include "blockexport/block_store.h"

namespace berth::blockexport {

class FlushedStore : public BlockStore {
 public:
  explicit FlushedStore(BlockStore& store) : store_(store) {}

  int64_t size_bytes() const override { return store_.size_bytes(); }
  bool read_only() const override { return store_.read_only(); }
  int Read(int64_t offset, std::span<char> into) override { return store_.Read(offset, into); }
  int Write(int64_t offset, std::span<const char> from) override {
    return store_.Write(offset, from);
  }
  bool Begin(Transfer& transfer) override { return store_.Begin(transfer); }
  // Returns the first error that a flush had, and ESHUTDOWN once the storage has shut this client
  // out.
  int Flush() override {
    const int error = store_.Flush();
    int none = 0;
    if (error == ESHUTDOWN) {
      failed_ = error;
    } else if (error != 0) {
      failed_.compare_exchange_strong(none, error);
    }
    return failed_;
  }
  int WriteZeroes(int64_t offset, int64_t length) override {
    return store_.WriteZeroes(offset, length);
  }
  base::Status Refresh() override { return store_.Refresh(); }

 private:
  BlockStore& store_;
  std::atomic<int> failed_{0};
};

}  // namespace berth::blockexport
