#include "platform/allocator.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace berth::platform {
namespace {

// What GLIBC_TUNABLES is after the call in a program that was started with `value`, which says that
// it must not restart.
std::string TunablesAfterRestart(const char* value) {
  setenv("GLIBC_TUNABLES", value, 1);
  RestartWithoutThreadCaches(nullptr);
  const char* after = std::getenv("GLIBC_TUNABLES");
  std::string result = after == nullptr ? "none" : after;
  unsetenv("GLIBC_TUNABLES");
  return result;
}

TEST(RestartWithoutThreadCachesTest, ChildrenGetTheEnvironmentOfBefore) {
  EXPECT_EQ(TunablesAfterRestart("glibc.malloc.tcache_count=0"), "none");
  EXPECT_EQ(TunablesAfterRestart("glibc.malloc.perturb=1:glibc.malloc.tcache_count=0"),
            "glibc.malloc.perturb=1");
}

TEST(RestartWithoutThreadCachesTest, ASizeThatSomebodyChoseStays) {
  EXPECT_EQ(TunablesAfterRestart("glibc.malloc.tcache_count=3"), "glibc.malloc.tcache_count=3");
}

}  // namespace
}  // namespace berth::platform
