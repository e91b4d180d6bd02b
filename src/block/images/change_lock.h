// The lock of whoever changes an image's existence or size, among processes and nodes.
//
// Its file is there as long as the image's record is: whoever holds it and leaves no record behind
// takes the file away, be it that the image was deleted, never made, or deleted by another who had
// the lock first.
#pragma once

#include <string>

#include "base/status.h"
#include "base/unique_fd.h"

namespace berth::block {

class ChangeLock {
 public:
  struct Paths {
    std::string lock;
    std::string record;
  };

  // Waits up to 10 s for another process. ABORTED: it still has the lock.
  static base::StatusOr<ChangeLock> Take(Paths paths, const std::string& image);
  ~ChangeLock();
  ChangeLock(ChangeLock&&) = default;
  ChangeLock& operator=(ChangeLock&&) = delete;

 private:
  ChangeLock(Paths paths, base::UniqueFd fd) : paths_(std::move(paths)), fd_(std::move(fd)) {}

  Paths paths_;
  base::UniqueFd fd_;
};

}  // namespace berth::block
