// Finds free loop devices, for each thread of this process another one. The kernel names the same
// free device to all threads that ask at the same moment, and all but one of them would try it in
// vain. Thread-safe.
#pragma once

#include <set>
#include <string>
#include <utility>

#include "base/status.h"
#include "base/unique_fd.h"

namespace berth::platform {

// A loop device that only this object's owner tries to use, among the threads of this process.
// Another process may take it all the same.
class FreeLoop {
 public:
  // Claims a device that is not in use, and makes it if there is none. It is none of those in
  // `tried`, which are numbers of devices that turned out to be in use. RESOURCE_EXHAUSTED: the
  // kernel has no free loop device. `control` is an open /dev/loop-control. Messages begin with
  // `context`.
  static base::StatusOr<FreeLoop> Find(const base::UniqueFd& control, const std::set<int>& tried,
                                       const std::string& context);

  FreeLoop(FreeLoop&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  FreeLoop& operator=(FreeLoop&&) = delete;
  ~FreeLoop();

  // N of /dev/loopN.
  int number() const { return number_; }

 private:
  explicit FreeLoop(int number) : number_(number) {}

  int number_;
};

}  // namespace berth::platform
