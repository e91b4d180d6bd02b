// A listener that code far below finds by the thread that calls it, because passing it down would
// change every function between them.
#pragma once

#include <functional>
#include <utility>

namespace berth::base {

// As long as the object lives, it listens for what its own thread does. The objects of a thread
// nest: the innermost one counts. `Tag` distinguishes listeners of different kinds.
template <typename Tag, typename Argument>
class ThreadListener {
 public:
  using Report = std::function<void(Argument)>;

  explicit ThreadListener(Report report) : report_(std::move(report)), outer_(innermost_) {
    innermost_ = this;
  }
  ~ThreadListener() { innermost_ = outer_; }
  ThreadListener(const ThreadListener&) = delete;
  ThreadListener& operator=(const ThreadListener&) = delete;

  // The listener of this thread; null: there is none.
  static const Report* current() { return innermost_ == nullptr ? nullptr : &innermost_->report_; }

 private:
  static inline thread_local const ThreadListener* innermost_ = nullptr;
  const Report report_;
  const ThreadListener* const outer_;
};

}  // namespace berth::base
