#include "platform/devices/free_loop.h"

#include <linux/loop.h>
#include <sys/ioctl.h>

#include <cerrno>

#include "base/log.h"
#include "base/mutex.h"
#include "platform/devices/loop_table.h"
#include "platform/errno.h"

namespace berth::platform {
namespace {

// The devices that the FreeLoops of this process have, by number.
struct Claims {
  base::Mutex mutex;
  std::set<int> numbers ABSL_GUARDED_BY(mutex);
};

Claims& GetClaims() {
  static auto& claims = *new Claims();
  return claims;
}

base::StatusOr<bool> IsTaken(const std::set<int>& tried, const std::set<int>& claimed, int number) {
  if (tried.contains(number) || claimed.contains(number)) return true;
  return HasImage(fmt::format("loop{}", number));
}

}  // namespace

base::StatusOr<FreeLoop> FreeLoop::Find(const base::UniqueFd& control, const std::set<int>& tried,
                                        const std::string& context) {
  const int first = ioctl(control.get(), LOOP_CTL_GET_FREE);
  if (first < 0) {
    if (errno == ENOSPC || errno == ENODEV) {
      return base::Error(base::StatusCode::kResourceExhausted, "{}: no free loop device", context);
    }
    return ErrnoError(errno, context + ": find a free loop device");
  }
  int number = first;
  {
    Claims& claims = GetClaims();
    base::MutexLock lock(claims.mutex);
    for (;; ++number) {
      const base::StatusOr<bool> taken = IsTaken(tried, claims.numbers, number);
      RETURN_IF_ERROR_WITH(taken, context);
      if (!*taken) break;
    }
    claims.numbers.insert(number);
  }
  FreeLoop found(number);
  // LOOP_CTL_GET_FREE has made the device that it named. A device with a higher number may be
  // missing.
  if (number != first && ioctl(control.get(), LOOP_CTL_ADD, number) < 0 && errno != EEXIST) {
    return ErrnoError(errno, fmt::format("{}: make /dev/loop{}", context, number));
  }
  return found;
}

FreeLoop::~FreeLoop() {
  if (number_ < 0) return;
  Claims& claims = GetClaims();
  base::MutexLock lock(claims.mutex);
  claims.numbers.erase(number_);
}

}  // namespace berth::platform
