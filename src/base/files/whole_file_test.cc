#include "base/files/whole_file.h"

#include <gtest/gtest.h>

#include <array>
#include <thread>

namespace berth::base {
namespace {

TEST(WholeFileTest, ReadsToTheEndWhatTheFileSaysItsSizeIsOrNot) {
  std::string content;
  EXPECT_EQ(ReadWholeFile("/proc/self/cmdline", 1 << 20, content), 0);
  EXPECT_FALSE(content.empty());
  EXPECT_EQ(ReadWholeFile("/no/such/file", 1 << 20, content), ENOENT);
  EXPECT_TRUE(content.empty());
  EXPECT_EQ(ReadWholeFile("/proc", 1 << 20, content), EISDIR);
}

TEST(WholeFileTest, WritesAndReadsMoreThanAPipeHolds) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
  UniqueFd from(ends[0]);
  UniqueFd to(ends[1]);
  const std::string sent(300'000, 'x');
  std::jthread writer([&] {
    EXPECT_EQ(WriteAll(to.get(), sent), 0);
    to.Reset();
  });
  std::string content;
  EXPECT_EQ(ReadAll(from.get(), sent.size(), content), 0);
  EXPECT_EQ(content, sent);
}

TEST(WholeFileTest, AFileThatIsTooLargeIsCut) {
  std::string content;
  EXPECT_EQ(ReadWholeFile("/dev/zero", 10'000, content), EFBIG);
  EXPECT_EQ(content, std::string(10'000, '\0'));
}

}  // namespace
}  // namespace berth::base
