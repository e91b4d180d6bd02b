// Lets calls that make a descriptor fail with EMFILE, from a chosen call on, as if this process had
// used up its descriptors; for one *_root_test.cc, whose program then has these functions instead
// of those of the C library. Children that share the memory of this process (platform/processes/
// child.h) are counted, too.
#pragma once

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <limits>

namespace berth::csidriver {

class FakeDescriptors {
 public:
  enum class Shortage {
    kOnce,     // one call fails: another thread took the last descriptor just then
    kForGood,  // all further calls fail
  };

  // Lets the call with this number, from 0, fail.
  static void RunOutAt(int call, Shortage shortage) {
    calls_ = 0;
    for_good_ = shortage == Shortage::kForGood;
    failing_ = call;
  }
  // Ends the shortage. Returns whether a call has failed.
  static bool End() { return calls_ > failing_.exchange(kNever); }

  // Whether this call is to fail; then it sets errno.
  static bool Fails() {
    const int failing = failing_;
    if (failing == kNever) return false;
    const int call = calls_++;
    if (call < failing || (call > failing && !for_good_)) return false;
    errno = EMFILE;
    return true;
  }

 private:
  static constexpr int kNever = std::numeric_limits<int>::max();

  static inline std::atomic<int> failing_{kNever};
  static inline std::atomic<int> calls_{0};
  static inline std::atomic<bool> for_good_{false};
};

inline int OpenUnlessShort(int folder, const char* path, int flags, unsigned mode) {
  if (FakeDescriptors::Fails()) return -1;
  return static_cast<int>(syscall(SYS_openat, folder, path, flags, mode));
}

}  // namespace berth::csidriver

#define BERTH_READ_MODE(flags, mode)                    \
  unsigned mode = 0;                                    \
  if (((flags) & O_CREAT) || ((flags) & __O_TMPFILE)) { \
    va_list arguments;                                  \
    va_start(arguments, flags);                         \
    (mode) = va_arg(arguments, unsigned);               \
    va_end(arguments);                                  \
  }

extern "C" {

int open(const char* path, int flags, ...) {
  BERTH_READ_MODE(flags, mode)
  return berth::csidriver::OpenUnlessShort(AT_FDCWD, path, flags, mode);
}
int open64(const char* path, int flags, ...) {
  BERTH_READ_MODE(flags, mode)
  return berth::csidriver::OpenUnlessShort(AT_FDCWD, path, flags, mode);
}
int openat(int folder, const char* path, int flags, ...) {
  BERTH_READ_MODE(flags, mode)
  return berth::csidriver::OpenUnlessShort(folder, path, flags, mode);
}
int openat64(int folder, const char* path, int flags, ...) {
  BERTH_READ_MODE(flags, mode)
  return berth::csidriver::OpenUnlessShort(folder, path, flags, mode);
}
DIR* opendir(const char* path) {
  if (berth::csidriver::FakeDescriptors::Fails()) return nullptr;
  static const auto real = reinterpret_cast<DIR* (*)(const char*)>(dlsym(RTLD_NEXT, "opendir"));
  return real(path);
}
int pipe2(int ends[2], int flags) noexcept {
  if (berth::csidriver::FakeDescriptors::Fails()) return -1;
  return static_cast<int>(syscall(SYS_pipe2, ends, flags));
}

}  // extern "C"

#undef BERTH_READ_MODE
