// Makes many requests at once, as the clients of a busy server do.
#pragma once

#include <functional>

#include "base/status.h"

namespace berth::bench {

// Runs `work(i)` for all numbers below `count`, on `threads` threads. Returns the first failure;
// the other numbers are worked on all the same.
base::Status RunInParallel(int count, int threads, const std::function<base::Status(int)>& work);

}  // namespace berth::bench
