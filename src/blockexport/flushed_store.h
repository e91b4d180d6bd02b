// A store whose failed flush is final: each later flush fails too.
//
// A storage that failed to flush may have dropped what it was sent, and its next flush then
// succeeds without that data. fsync(2) reports such a failure once; a later caller, such as the one
// who closes the volume, must not be told that all its writes are durable.
//
// It also knows whether a flush has covered all writes, so that a flush that hangs later is no
// loss.
//
// Thread-safe. The store is borrowed.
#pragma once

#include <atomic>
#include <cerrno>
#include <cstdint>

#include "blockexport/block_store.h"

namespace berth::blockexport {

class FlushedStore : public BlockStore {
 public:
  explicit FlushedStore(BlockStore& store) : store_(store) {}

  int64_t size_bytes() const override { return store_.size_bytes(); }
  bool read_only() const override { return store_.read_only(); }
  int Read(int64_t offset, std::span<char> into) override { return store_.Read(offset, into); }
  int Write(int64_t offset, std::span<const char> from) override {
    return CountChange([&] { return store_.Write(offset, from); });
  }
  bool Begin(Transfer& transfer) override {
    // The end of a write in the background is not seen here.
    if (transfer.writes) counts_all_ = false;
    return store_.Begin(transfer);
  }
  // Returns the first error that a flush had, and ESHUTDOWN once the storage has shut this client
  // out.
  int Flush() override {
    const uint64_t before = changes_;
    const int error = store_.Flush();
    int none = 0;
    if (error == 0) RaiseFlushed(before);
    if (error == ESHUTDOWN) {
      failed_ = error;
    } else if (error != 0) {
      failed_.compare_exchange_strong(none, error);
    }
    return failed_;
  }
  int WriteZeroes(int64_t offset, int64_t length) override {
    return CountChange([&] { return store_.WriteZeroes(offset, length); });
  }
  base::Status Refresh() override { return store_.Refresh(); }

  // Whether the storage has all writes that were answered: no flush failed, and the last one began
  // after them.
  bool HasFlushed() const { return failed_ == 0 && counts_all_ && flushed_ == changes_; }

 private:
  // Counts the begin and the end of each write, so that a flush between them does not count as one
  // that covers the write.
  template <typename Change>
  int CountChange(const Change& change) {
    ++changes_;
    const int error = change();
    ++changes_;
    return error;
  }
  // Several flushes may run at once, and an earlier one may end last.
  void RaiseFlushed(uint64_t to) {
    uint64_t known = flushed_;
    while (known < to && !flushed_.compare_exchange_weak(known, to)) {
    }
  }

  BlockStore& store_;
  std::atomic<uint64_t> changes_{0}, flushed_{0};
  std::atomic<bool> counts_all_{true};
  std::atomic<int> failed_{0};
};

}  // namespace berth::blockexport
