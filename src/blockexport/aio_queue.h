// Reads and writes of a file that the kernel makes in the background (io_submit(2)), so that one
// thread can have many of them under way. A thread of the queue takes what has ended.
//
// A process that is killed ends only after all of them: each holds the open file, and so its locks.
//
// Thread-safe.
#pragma once

#include <linux/aio_abi.h>

#include <functional>
#include <memory>
#include <thread>

#include "blockexport/block_store.h"

namespace berth::blockexport {

class AioQueue {
 public:
  // Gets the number of bytes that were read or written, or an errno below 0.
  using Ended = std::function<void(Transfer& transfer, int64_t result)>;

  // `file` is borrowed, and has direct I/O: the kernel makes other I/O in io_submit itself. `most`
  // transfers may be under way. nullptr: the kernel refuses, for example because all processes
  // together have as many as fs.aio-max-nr allows.
  static std::unique_ptr<AioQueue> Open(int file, unsigned most, Ended ended);
  // No transfer may be under way: the kernel would wait for it, and `ended` might not be called.
  ~AioQueue();
  AioQueue(const AioQueue&) = delete;
  AioQueue& operator=(const AioQueue&) = delete;

  // Begins the transfer; `ended` is then called for it, on the thread of the queue. False: the
  // kernel does not take it, and `ended` is not called.
  bool Begin(Transfer& transfer);

 private:
  AioQueue(int file, aio_context_t context, Ended ended);
  void TakeEnded();

  const int file_;
  const aio_context_t context_;
  const Ended ended_;
  std::jthread thread_;
};

}  // namespace berth::blockexport
