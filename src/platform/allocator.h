// Tunes the C library's allocator for processes that have many threads, live long and should stay
// small.
#pragma once

#include <chrono>

namespace berth::platform {

// Call it once, before the first thread starts.
void TuneAllocator();

// Returns free memory to the kernel, unless any thread of the process did so within `interval`.
void TrimMemory(std::chrono::milliseconds interval);

}  // namespace berth::platform
