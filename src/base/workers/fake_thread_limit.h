// Lets tests meet a system that starts no more threads.
#pragma once

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>

namespace berth::base {

// Lets no thread start: its stack would be larger than those that glibc keeps of ended threads, and
// the address space has no room for it.
class NoRoomForThreads {
 public:
  NoRoomForThreads() {
    EXPECT_EQ(pthread_getattr_default_np(&before_), 0);
    pthread_attr_t large = before_;
    EXPECT_EQ(pthread_attr_setstacksize(&large, 64 << 20), 0);
    EXPECT_EQ(pthread_setattr_default_np(&large), 0);
    size_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    EXPECT_EQ(getrlimit(RLIMIT_AS, &limit_), 0);
    const rlimit full{.rlim_cur = pages * static_cast<size_t>(getpagesize()) + (16 << 20),
                      .rlim_max = limit_.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_AS, &full), 0);
  }
  ~NoRoomForThreads() {
    EXPECT_EQ(setrlimit(RLIMIT_AS, &limit_), 0);
    EXPECT_EQ(pthread_setattr_default_np(&before_), 0);
  }

 private:
  pthread_attr_t before_{};
  rlimit limit_{};
};

}  // namespace berth::base
