// The lock that a process takes, on any node, while it creates, deletes or resizes an image.
//
// The lock file exists as long as the image's record. A holder that releases the lock removes the
// file if there is no record, because the image then was deleted or was never made.
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

  // Blocks up to 10 s while another holder has the lock. ABORTED: that holder still has it. `image`
  // is for the message.
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
