#include "block/sizes.h"

#include <gtest/gtest.h>

#include <limits>

namespace berth::block {
namespace {

TEST(SizesTest, ChoosesWithinTheRange) {
  struct Case {
    SizeRange range;
    int64_t minimum;
    int64_t size;
  };
  for (const Case& c : std::vector<Case>{
           {{0, 0}, kMiB, kDefaultSize},
           {{10 * kMiB, 0}, kMiB, 10 * kMiB},
           {{10 * kMiB + 1, 0}, kMiB, 10 * kMiB + kSizeStep},
           {{1, 0}, 300 * kMiB, 300 * kMiB},
           {{0, 5 * kMiB}, kMiB, 5 * kMiB},
           {{0, 5 * kMiB + 7}, kMiB, 5 * kMiB},
           {{kMiB, kMiB}, kMiB, kMiB},
       }) {
    const auto size = ChooseSize(c.range, c.minimum);
    ASSERT_TRUE(size.ok()) << size.status();
    EXPECT_EQ(*size, c.size);
    EXPECT_TRUE(Satisfies(*size, c.range));
  }
}

TEST(SizesTest, RefusesWhatNoSizeFits) {
  using base::StatusCode;
  const auto code = [](SizeRange range, int64_t minimum) {
    return ChooseSize(range, minimum).status().code();
  };
  EXPECT_EQ(code({2, 1}, kMiB), StatusCode::kInvalidArgument);
  EXPECT_EQ(code({-1, 0}, kMiB), StatusCode::kInvalidArgument);
  EXPECT_EQ(code({kMiB, 2 * kMiB}, 300 * kMiB), StatusCode::kOutOfRange);
  EXPECT_EQ(code({kMiB + 1, kMiB + 1}, kMiB), StatusCode::kOutOfRange);
  EXPECT_EQ(code({std::numeric_limits<int64_t>::max(), 0}, kMiB), StatusCode::kOutOfRange);
}

TEST(SizesTest, FileSystemsHaveAMinimum) {
  EXPECT_EQ(MinimumSize("xfs"), 300 * kMiB);
  EXPECT_EQ(MinimumSize("ext4"), 8 * kMiB);
  EXPECT_EQ(MinimumSize(""), kMiB);
}

}  // namespace
}  // namespace berth::block
