#include "node/containers/container_log.h"

#include <gtest/gtest.h>

#include <fstream>

#include "platform/files/fake_temp_folder.h"

namespace berth::node {
namespace {

TEST(ContainerLogTest, AReaderThatHasGoneIsNoticedThoughTheLogGrows) {
  const platform::TempFolder folder;
  const std::string path = folder / "0.log";
  const auto grow = [&] {
    std::ofstream(path, std::ios::app) << "2026-01-01T00:00:00Z stdout F again\n";
  };
  grow();
  int pieces = 0;
  const base::Status read = ReadContainerLog(
      path, {},
      [&](std::string_view text) {
        EXPECT_EQ(text, "again\n");
        if (++pieces < 1000) grow();
        return true;
      },
      [] { return true; }, [&] { return pieces >= 3; });
  EXPECT_TRUE(read.ok()) << read;
  EXPECT_EQ(pieces, 3);
}

}  // namespace
}  // namespace berth::node
