#include <gtest/gtest.h>
#include <unistd.h>

#include "platform/file_systems/kernel_file_systems.h"

namespace berth::platform {
namespace {

TEST(KernelHasFileSystem, TellsWhatCanBeMounted) {
  if (geteuid() != 0) GTEST_SKIP() << "skipped: asking the kernel needs root";
  const auto known = KernelHasFileSystem("tmpfs");
  ASSERT_TRUE(known.ok()) << known.status();
  EXPECT_TRUE(*known);
  const auto unknown = KernelHasFileSystem("no-such-file-system");
  ASSERT_TRUE(unknown.ok()) << unknown.status();
  EXPECT_FALSE(*unknown);
}

}  // namespace
}  // namespace berth::platform
