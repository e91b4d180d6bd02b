#include "platform/allocator.h"

#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <thread>

namespace berth::platform {

void TuneAllocator() {
  // The default is eight arenas per core, and each arena keeps the memory that a burst used.
  mallopt(M_ARENA_MAX, std::max(2, static_cast<int>(std::thread::hardware_concurrency())));
  // Without this, malloc would serve the next long answer of the API server from an arena after the
  // first one was freed, and the arena would stay as large.
  mallopt(M_MMAP_THRESHOLD, 256 * 1024);
  // Fast bins are turned off, because malloc joins their chunks with the neighbours whenever a
  // larger object is requested, and that is often. The caches of the threads remain.
  mallopt(M_MXFAST, 0);
}

void TrimMemory(std::chrono::milliseconds interval) {
  using Clock = std::chrono::steady_clock;
  static std::atomic<Clock::time_point> last{Clock::time_point()};  // when the machine booted
  const Clock::time_point now = Clock::now();
  Clock::time_point seen = last.load();
  if (now - seen < interval) return;
  if (last.compare_exchange_strong(seen, now)) malloc_trim(0);
}

}  // namespace berth::platform
