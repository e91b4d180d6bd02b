// Work on a volume's files that takes many calls, any of which the kernel may never come back from.
//
// One call that may block runs in a child (child.h). A walk over a volume is thousands, made by
// several threads that share memory and locks: it is done on threads of this process, apart from
// the one that waits for it.
//
//   caller ──▶ waits ──▶ OK, an error
//     │          │ no sign of life
//     │          └─────▶ DEADLINE_EXCEEDED: the work is given up. It ends once the kernel lets it
//     ▼                  go, and nothing of the kind is begun on its file system before that.
//   thread with a table of descriptors of its own, and in it one folder
//
// Because of that table a thread that the kernel keeps for ever keeps that file system alone: the
// locks and connections of its process go when the process is killed.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/status.h"

namespace berth::platform {

// What the work has of the one who waits for it. Thread-safe.
class LongWork {
 public:
  virtual ~LongWork() = default;
  // One more file or folder is done: a sign of life.
  virtual void CountOne() = 0;
  // Asked often, it is a sign of life as well. True: the work is to end.
  virtual bool cancelled() = 0;
  // The answer to `question`, which may be about things of the one who waits; false once nobody
  // does.
  virtual bool Ask(const std::function<bool()>& question) = 0;
};

// The functions may be empty. They are called on the thread that waits.
struct LongWorkOptions {
  std::string what;                                             // in messages
  std::chrono::milliseconds patience{std::chrono::minutes(2)};  // without a sign of life
  std::function<bool()> cancelled;                              // asked many times a second
  std::function<void(uint64_t done)> progress;                  // files and folders, so far
  std::chrono::milliseconds progress_interval{std::chrono::seconds(30)};
};

// Does `body` with a descriptor of its own (O_PATH) of the folder that `folder` holds. As with a
// child's, all that the body touches is its own: it captures by value alone. It has none of this
// process's descriptors above 2, and must not use any by its number or as /proc/self/fd/N.
//
// CANCELLED; DEADLINE_EXCEEDED: given up, its outcome is unknown; UNAVAILABLE: earlier work on that
// file system was given up and is not over; or what `body` gives.
base::Status RunLongWork(int folder, const LongWorkOptions& options,
                         std::function<base::Status(int folder, LongWork& work)> body);

}  // namespace berth::platform
