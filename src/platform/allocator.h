// Tunes the C library's allocator for processes that have many threads, live long and should stay
// small.
#pragma once

#include <chrono>

namespace berth::platform {

// Call it once, before the first thread starts.
void TuneAllocator();

// Executes this program anew, once, with the same arguments and with small caches of freed memory
// for each thread: only for the pieces that a tree of JSON consists of. The C library's larger ones
// keep pages that nothing else uses, and without any, threads that read long lists at the same time
// wait for each other. The caches can only be set from outside, by GLIBC_TUNABLES (see "Memory
// Allocation Tunables" in the GNU C Library's manual). The program's environment is afterwards as
// it was, so that its children have the usual caches. Returns when that is done, or if it cannot be
// done, which costs memory alone. Call it before the first thread starts.
void RestartWithSmallThreadCaches(char** argv);

// Returns free memory to the kernel, unless any thread of the process did so within `interval`.
void TrimMemory(std::chrono::milliseconds interval);

}  // namespace berth::platform
