// What a volume is stored in, as the process that serves the volume reads and writes it.
//
// Thread-safe: several requests run at once. The order of requests that overlap is the caller's
// matter, as for a disk. Each call returns 0 or an errno: EIO where nothing better is known, ENOSPC
// if the storage is full, ESHUTDOWN after a fence, because the storage then refuses this client for
// good. Each call ends within the store's own deadline, because a request that never ends hangs its
// user.
//
// The memory of `into` and `from` is aligned to kBufferAlignment, so that a store can hand it to
// direct I/O. Offsets and lengths are inside the volume, but need not be aligned: the loop device
// of a volume uses blocks of 4096 bytes, and a program that opens the FUSE file may use any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/status.h"

namespace berth::blockexport {

inline constexpr size_t kBufferAlignment = 4096;

// A read or write that a store makes in the background.
struct Transfer {
  bool writes = false;
  int64_t offset = 0;
  std::span<char> data;  // read into, or written from; aligned like the memory of other calls
  // Called once, with 0 or an errno, on any thread. The transfer may be gone when it returns.
  void (*ended)(Transfer& transfer, int error) = nullptr;
};

class BlockStore {
 public:
  virtual ~BlockStore() = default;

  virtual int64_t size_bytes() const = 0;
  virtual bool read_only() const = 0;
  // Reads or writes everything, or returns an error.
  virtual int Read(int64_t offset, std::span<char> into) = 0;
  virtual int Write(int64_t offset, std::span<const char> from) = 0;
  // Begins the transfer, with the outcome of Read or Write. `transfer` is borrowed until its end.
  // False: the store does not do that now, and the caller uses Read or Write.
  virtual bool Begin(Transfer& /*transfer*/) { return false; }
  // After 0, all writes that were answered before the call are durable.
  virtual int Flush() = 0;
  // Makes the range read as zeroes, and gives its space back where the storage can. A loop device
  // sends both discards and requests for zeroes as "punch a hole", so a store may never skip a part
  // of the range. EOPNOTSUPP: the storage cannot do this without being sent the zeroes. The kernel
  // then writes zeroes itself where they are needed, and ignores discards.
  virtual int WriteZeroes(int64_t offset, int64_t length) = 0;
  // Reads the present size of the volume from the storage.
  virtual base::Status Refresh() = 0;
};

}  // namespace berth::blockexport
