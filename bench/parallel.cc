#include "bench/parallel.h"

#include <atomic>
#include <thread>
#include <vector>

#include "base/mutex.h"

namespace berth::bench {

base::Status RunInParallel(int count, int threads, const std::function<base::Status(int)>& work) {
  std::atomic<int> next = 0;
  base::Mutex mutex;
  base::Status first = base::OkStatus();
  {
    std::vector<std::jthread> running;
    for (int t = 0; t < threads; ++t) {
      running.emplace_back([&] {
        for (int i = next++; i < count; i = next++) {
          const base::Status done = work(i);
          base::MutexLock lock(mutex);
          if (first.ok()) first = done;
        }
      });
    }
  }
  return first;
}

}  // namespace berth::bench
