// The lock that a process takes, on any node, while it creates, deletes or resizes an image.
//
// Its file exists as long as the image's record. A holder that ends while there is no record
// removes the file: the image was deleted, was never made, or an earlier holder had deleted it.
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
  static base::StatusOr<ChangeLock> TakeLock(Paths paths, const std::string& image);
  ~ChangeLock();
  ChangeLock(ChangeLock&&) = default;
  ChangeLock& operator=(ChangeLock&&) = delete;

 private:
  ChangeLock(Paths paths, base::UniqueFd fd) : paths_(std::move(paths)), fd_(std::move(fd)) {}

  Paths paths_;
  base::UniqueFd fd_;
};

}  // namespace berth::block
