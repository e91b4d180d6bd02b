// The C library's allocator, for processes of many threads that live long and stay small.
#pragma once

namespace berth::platform {

// To be called once, before the first thread.
void TuneAllocator();

}  // namespace berth::platform
