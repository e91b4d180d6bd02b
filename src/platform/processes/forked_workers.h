// Forked copies of this process that answer requests one after the other, each with a deadline, for
// libraries that allocate memory and may block for ever in the kernel, such as a probe of a device
// that no longer answers.
//
// A child of child.h costs less, but shares this process's memory and so may not allocate. A worker
// has memory of its own, and the C library makes the allocator usable there. A template forks the
// workers (fork_template.h). A worker that has answered serves the next request, and a request
// waits a moment for a worker that is busy before another one is made.
#pragma once

#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "platform/processes/fork_template.h"

namespace berth::platform {

// A worker ends when nobody has asked it for two seconds, or when this process ends. Thread-safe.
class ForkedWorkers {
 public:
  // Answers `request` in a worker: returns 0 or an errno, and fills in `reply`, which is zero
  // before and has kMostBytes. Any lock may be held there by a thread that the worker does not
  // have, so the function must not log, nor use anything that another thread uses. It has no
  // descriptor of this process, and what it opens it closes, because the worker goes on.
  using Body = int (*)(const char* request, std::span<std::byte> reply);

  // A request has at most this many bytes, as a path has; a reply, too.
  static constexpr size_t kMostBytes = 4096;

  explicit ForkedWorkers(Body body);
  ForkedWorkers(const ForkedWorkers&) = delete;
  ForkedWorkers& operator=(const ForkedWorkers&) = delete;

  // Makes the template now; else the first request does. Best called before this process has
  // threads and much memory (fork_template.h). A failure is not told, because the first request
  // tries again.
  void Prepare() { (void)template_.Prepare(); }

  // The error is the body's errno. DEADLINE_EXCEEDED: the worker did not answer in time, and was
  // sent SIGKILL; it is reaped when the kernel has let it go, and no other request waits for it.
  // INTERNAL: the worker died. INVALID_ARGUMENT: the request is too long or has a zero byte.
  // Messages begin with `what`.
  base::Status SendRequest(std::string_view what, std::chrono::milliseconds timeout,
                           const std::string& request, std::span<std::byte> reply);

  // As above, for one value of a type that is copied byte by byte.
  template <typename Answer>
  base::StatusOr<Answer> SendRequest(std::string_view what, std::chrono::milliseconds timeout,
                                     const std::string& request) {
    static_assert(std::is_trivially_copyable_v<Answer> && sizeof(Answer) <= kMostBytes);
    Answer answer{};
    RETURN_IF_ERROR(
        SendRequest(what, timeout, request, std::as_writable_bytes(std::span(&answer, 1))));
    return answer;
  }

 private:
  using Worker = ForkTemplate::Worker;

  // Counts a worker that is at work.
  class Working;

  base::StatusOr<Worker> TakeWorker(std::string_view what, bool& is_new);
  void KeepWorker(Worker worker);

  ForkTemplate template_;
  base::Mutex mutex_;
  base::CondVar kept_;
  std::vector<Worker> idle_ ABSL_GUARDED_BY(mutex_);
  int working_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace berth::platform
