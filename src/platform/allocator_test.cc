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
  RestartWithSmallThreadCaches(nullptr);
  const char* after = std::getenv("GLIBC_TUNABLES");
  std::string result = after == nullptr ? "none" : after;
  unsetenv("GLIBC_TUNABLES");
  return result;
}

TEST(RestartWithSmallThreadCachesTest, ChildrenGetTheEnvironmentOfBefore) {
  EXPECT_EQ(TunablesAfterRestart("glibc.malloc.tcache_count=32:glibc.malloc.tcache_max=88"),
            "none");
  EXPECT_EQ(TunablesAfterRestart(
                "glibc.malloc.perturb=1:glibc.malloc.tcache_count=32:glibc.malloc.tcache_max=88"),
            "glibc.malloc.perturb=1");
}

TEST(RestartWithSmallThreadCachesTest, ASizeThatSomebodyChoseStays) {
  EXPECT_EQ(TunablesAfterRestart("glibc.malloc.tcache_count=3"), "glibc.malloc.tcache_count=3");
}

}  // namespace
}  // namespace berth::platform
