// Work on a volume's files that takes many system calls, any of which may block for ever in the
// kernel.
//
// A single call that may block runs in a child (child.h). A walk over a volume makes thousands of
// calls, from several threads that share memory and locks. So it runs on threads of this process,
// apart from the thread that waits for it.
//
//   caller ──▶ waits ──▶ OK, an error
//     │          │ no sign of life
//     │          └─────▶ DEADLINE_EXCEEDED: the work is given up. It ends once the kernel lets it
//     ▼                  go, and no other long work begins on its file system before that.
//   thread with a table of descriptors of its own, and in it one folder
//
// Because of that table, a thread that the kernel never lets go keeps only that file system busy:
// the locks and connections of its process are released when the process is killed.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/status.h"

namespace berth::platform {

// The work's connection to the caller that waits for it. Thread-safe.
class LongWork {
 public:
  virtual ~LongWork() = default;
  // Counts one more finished file or folder, which is a sign of life.
  virtual void CountOne() = 0;
  // True: the work must end. To ask is a sign of life as well, so ask often.
  virtual bool cancelled() = 0;
  // Runs `question` on this thread while the caller still waits, so that it may use the caller's
  // objects, and returns its answer. Returns false without running it once the caller no longer
  // waits.
  virtual bool AskCaller(const std::function<bool()>& question) = 0;
};

// The functions may be empty. They are called on the waiting thread.
struct LongWorkOptions {
  std::string what;                                             // in messages
  std::chrono::milliseconds patience{std::chrono::minutes(2)};  // without a sign of life
  std::function<bool()> cancelled;                              // asked many times a second
  std::function<void(uint64_t done)> progress;                  // files and folders, so far
  std::chrono::milliseconds progress_interval{std::chrono::seconds(30)};
};

// Runs `body` with a descriptor of its own (O_PATH) of the folder that `folder` holds. As with a
// child, the body must own everything that it touches: it captures by value only. It has none of
// this process's descriptors above 2, and must not use any by its number or as /proc/self/fd/N.
//
// CANCELLED; DEADLINE_EXCEEDED: the work is given up, and its outcome is unknown; UNAVAILABLE:
// earlier work on that file system was given up and has not ended yet; or the error that `body`
// returns.
base::Status RunLongWork(int folder, const LongWorkOptions& options,
                         std::function<base::Status(int folder, LongWork& work)> body);

}  // namespace berth::platform
