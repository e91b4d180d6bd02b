#include "platform/allocator.h"

#include <malloc.h>

#include <algorithm>
#include <thread>

namespace berth::platform {

void TuneAllocator() {
  // By default eight arenas a core: each keeps what a burst has left in it.
  mallopt(M_ARENA_MAX, std::max(2, static_cast<int>(std::thread::hardware_concurrency())));
  // What lies in a fast bin is joined with its neighbours whenever something larger is asked for:
  // with objects of all sizes that is all the time. The threads' own caches remain.
  mallopt(M_MXFAST, 0);
}

}  // namespace berth::platform
