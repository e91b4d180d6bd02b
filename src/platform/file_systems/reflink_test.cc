#include "platform/file_systems/reflink.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "platform/files/durable_file.h"
#include "platform/files/fake_temp_folder.h"

namespace berth::platform {
namespace {

using base::StatusCode;

constexpr uint64_t kSize = 64 << 20;

class CopyImageTest : public testing::Test {
 protected:
  CopyImageTest() {
    from_.Reset(open(folder_.SparseFile("from", kSize).c_str(), O_RDWR | O_CLOEXEC));
    to_.Reset(open(folder_.SparseFile("to", 0).c_str(), O_RDWR | O_CLOEXEC));
    Write("first", 0);
    Write("middle", 40 << 20);
  }
  void Write(std::string_view text, off_t at) {
    EXPECT_EQ(pwrite(from_.get(), text.data(), text.size(), at), static_cast<ssize_t>(text.size()));
  }
  std::string Read(off_t at, size_t size) {
    std::string text(size, '?');
    EXPECT_EQ(pread(to_.get(), text.data(), size, at), static_cast<ssize_t>(size));
    return text;
  }
  const TempFolder folder_;
  base::UniqueFd from_, to_;
};

TEST_F(CopyImageTest, CopiesDataAndKeepsHoles) {
  const auto method = CopyImage(from_.get(), to_.get(), {.reflink = false});
  ASSERT_TRUE(method.ok()) << base::ToString(method.status());
  EXPECT_EQ(*method, CopyMethod::kSparseCopy);
  struct stat st;
  ASSERT_EQ(fstat(to_.get(), &st), 0);
  EXPECT_EQ(st.st_size, static_cast<off_t>(kSize));
  EXPECT_LT(st.st_blocks * 512, 1 << 20);
  EXPECT_EQ(Read(0, 5), "first");
  EXPECT_EQ(Read(40 << 20, 6), "middle");
  EXPECT_EQ(Read(20 << 20, 2), std::string(2, '\0'));
}

TEST_F(CopyImageTest, GivesTheSameBytesWhicheverWayItTook) {
  ASSERT_TRUE(CopyImage(from_.get(), to_.get(), {}).ok());
  EXPECT_EQ(Read(40 << 20, 6), "middle");
}

TEST_F(CopyImageTest, StopsWhenToldTo) {
  int asked = 0;
  const auto result = CopyImage(from_.get(), to_.get(),
                                {.cancelled = [&] { return ++asked > 1; }, .reflink = false});
  EXPECT_EQ(result.status().code(), StatusCode::kCancelled);
}

TEST_F(CopyImageTest, ReportsHowFarItIs) {
  std::vector<double> parts;
  ASSERT_TRUE(CopyImage(from_.get(), to_.get(),
                        {.report = [&](double part) { parts.push_back(part); }, .reflink = false})
                  .ok());
  ASSERT_EQ(parts.size(), 2u);  // one for each piece of data
  EXPECT_LT(parts[0], 0.1);
  EXPECT_GT(parts[1], 0.6);
  EXPECT_LT(parts[1], 0.7);
}

TEST_F(CopyImageTest, StopsAtTheDeadline) {
  const auto result = CopyImage(from_.get(), to_.get(), {.deadline = {}, .reflink = false});
  EXPECT_EQ(result.status().code(), StatusCode::kDeadlineExceeded);
}

}  // namespace
}  // namespace berth::platform
