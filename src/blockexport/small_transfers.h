// The small reads of a FUSE file, which the store makes in the background where it can.
//
// A thread that waits for the storage sleeps and wakes once for each request. That costs more than
// a small request itself. So the thread that received a small request goes on with the next one,
// and the store's own thread answers it. A large request keeps its thread, whose buffer holds the
// data.
// So does a write: the kernel may wait while it takes a write of a file in the background, so one
// thread would make one write after the other.
//
// Thread-safe.
#pragma once

#include <array>
#include <chrono>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "blockexport/block_store.h"
#include "blockexport/fuse.h"
#include "blockexport/request_threads.h"

namespace berth::blockexport {

class SmallTransfers {
 public:
  static constexpr size_t kLargest = size_t{32} << 10;

  // Answers a request whose transfer ended with `error`, 0 or an errno.
  using Answer = void (*)(fuse_req_t request, const Transfer& transfer, int error);

  explicit SmallTransfers(Answer answer);
  // No transfer may be under way.
  ~SmallTransfers() = default;
  SmallTransfers(const SmallTransfers&) = delete;
  SmallTransfers& operator=(const SmallTransfers&) = delete;

  // Begins a transfer, whose end answers the request. False: it is large, or the store or this
  // object takes no more now, so the caller makes it and answers.
  bool BeginRead(BlockStore& store, fuse_req_t request, int64_t offset, size_t size);
  // Waits until none is under way. False: one still is after `within`.
  bool AwaitAll(std::chrono::milliseconds within);

 private:
  struct Slot : Transfer {
    SmallTransfers* owner = nullptr;
    fuse_req_t request = nullptr;
    char* memory = nullptr;
  };
  struct Free {
    void operator()(char* memory) const;
  };

  Slot* TakeSlot();
  void ReturnSlot(Slot& slot);
  bool BeginIn(Slot& slot, BlockStore& store, fuse_req_t request);

  const Answer answer_;
  const std::unique_ptr<char, Free> memory_;
  std::array<Slot, kMostTransfers> slots_;
  base::Mutex mutex_;
  base::CondVar returned_;
  std::vector<Slot*> free_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace berth::blockexport
