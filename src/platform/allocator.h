// Tunes the C library's allocator for processes that have many threads, live long and should stay
// small.
#pragma once

namespace berth::platform {

// Call it once, before the first thread starts.
void TuneAllocator();

}  // namespace berth::platform
