// A read that costs much, such as one of a whole table of the kernel, made once for all threads
// that ask for it at the same moment.
//
//   ask ─▶ none runs ─▶ this thread reads ─▶ its answer is for all who asked before it began
//     └──▶ one runs ──▶ waits for its end, and then for a read that began after the question
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "base/mutex.h"

namespace berth::base {

// Thread-safe. It has no deadline, so it is for reads that end.
template <typename T>
class SharedRead {
 public:
  // Returns what `read` returned, on this thread or on another one that began it after this call
  // began. An answer is therefore never older than the question.
  std::shared_ptr<const T> Get(const std::function<T()>& read) {
    MutexLock lock(mutex_);
    const uint64_t wanted = begun_ + 1;
    while (finished_ < wanted) {
      if (begun_ > finished_) {
        changed_.Wait(mutex_);
        continue;
      }
      const uint64_t number = ++begun_;
      mutex_.Unlock();
      auto answer = std::make_shared<const T>(read());
      mutex_.Lock();
      answer_ = std::move(answer);
      finished_ = number;
      changed_.NotifyAll();
    }
    return answer_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  uint64_t begun_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t finished_ ABSL_GUARDED_BY(mutex_) = 0;
  std::shared_ptr<const T> answer_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace berth::base
