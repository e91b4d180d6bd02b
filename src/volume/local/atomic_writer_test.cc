#include "volume/local/atomic_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>

#include "platform/files/durable_file.h"
#include "platform/files/fake_temp_folder.h"

namespace berth::volume {
namespace {

using platform::ListFolder;
using platform::ReadFile;
using testing::ElementsAre;
using testing::SizeIs;
using testing::StartsWith;

class AtomicWriterTest : public testing::Test {
 protected:
  base::Status Write(const Payload& payload) {
    return WriteAtomically(folder_.path(), payload,
                           {.now = base::FakeClock().Now(), .before_switch = [this] {
                              ++switches_;
                              return before_switch_;
                            }});
  }
  std::string Content(const std::string& path) {
    // Through the symlinks, as a container reads it.
    std::array<char, 4096> real;
    if (realpath((folder_ / path).c_str(), real.data()) == nullptr) return "(none)";
    const auto content = ReadFile(real.data());
    return content.ok() ? *content : "(unreadable)";
  }
  std::string Version() {
    std::array<char, 256> target = {};
    EXPECT_GT(readlink((folder_ / "..data").c_str(), target.data(), target.size() - 1), 0);
    return target.data();
  }
  std::vector<std::string> Names() { return *ListFolder(folder_.path()); }

  const platform::TempFolder folder_;
  int switches_ = 0;
  base::Status before_switch_;
};

TEST_F(AtomicWriterTest, LaysFilesOutAsTheKubeletDoes) {
  const base::Status status = Write({{"a", {.data = "1", .mode = 0400}}, {"d/e/f", {.data = "2"}}});
  ASSERT_TRUE(status.ok()) << base::ToString(status);
  EXPECT_EQ(Content("a"), "1");
  EXPECT_EQ(Content("d/e/f"), "2");
  EXPECT_THAT(Version(), StartsWith("..2026_01_01_00_00_00."));
  EXPECT_THAT(Names(), ElementsAre(StartsWith("..2026_"), "..data", "a", "d"));
  struct stat st;
  ASSERT_EQ(stat((folder_ / "a").c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 07777, 0400u);
  ASSERT_EQ(stat((folder_ / "d/e").c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 07777, 0755u);
}

TEST_F(AtomicWriterTest, WritesOnlyWhatDiffers) {
  ASSERT_TRUE(Write({{"a", {.data = "1"}}}).ok());
  const std::string version = Version();
  ASSERT_TRUE(Write({{"a", {.data = "1"}}}).ok());
  EXPECT_EQ(Version(), version);
  EXPECT_EQ(switches_, 1);
  ASSERT_TRUE(Write({{"a", {.data = "2"}}}).ok());
  EXPECT_NE(Version(), version);
  EXPECT_EQ(Content("a"), "2");
  EXPECT_THAT(Names(), ElementsAre(Version(), "..data", "a"));
}

TEST_F(AtomicWriterTest, RemovesWhatIsNoLongerThere) {
  ASSERT_TRUE(Write({{"a", {.data = "1"}}, {"d/e", {.data = "2"}}, {"d/f", {.data = "3"}}}).ok());
  ASSERT_TRUE(Write({{"d/e", {.data = "2"}}}).ok());
  EXPECT_EQ(Content("a"), "(none)");
  EXPECT_EQ(Content("d/f"), "(none)");
  EXPECT_EQ(Content("d/e"), "2");
  ASSERT_TRUE(Write({}).ok());
  EXPECT_THAT(Names(), ElementsAre(Version(), "..data"));
}

TEST_F(AtomicWriterTest, AFailureBeforeTheSwitchLeavesTheOldContent) {
  ASSERT_TRUE(Write({{"a", {.data = "old"}}}).ok());
  before_switch_ = base::Error(base::StatusCode::kInternal, "chown");
  EXPECT_FALSE(Write({{"a", {.data = "new"}}, {"b", {.data = "new"}}}).ok());
  EXPECT_EQ(Content("a"), "old");
  EXPECT_EQ(Content("b"), "(none)");
  before_switch_ = base::OkStatus();
  ASSERT_TRUE(Write({{"a", {.data = "new"}}}).ok());
  EXPECT_EQ(Content("a"), "new");
  EXPECT_THAT(Names(), ElementsAre(Version(), "..data", "a"));
}

TEST_F(AtomicWriterTest, RepairsWhatACrashLeft) {
  ASSERT_TRUE(Write({{"a", {.data = "1"}}, {"b", {.data = "2"}}}).ok());
  // Cut off before the links, with a half-made version and half-made links.
  ASSERT_EQ(unlink((folder_ / "b").c_str()), 0);
  ASSERT_TRUE(platform::MakeFolders(folder_ / "..2025_12_31_00_00_00.123/x").ok());
  ASSERT_EQ(symlink("..nowhere", (folder_ / "..data_tmp").c_str()), 0);
  ASSERT_EQ(symlink("..nowhere", (folder_ / "..link_tmp").c_str()), 0);
  ASSERT_TRUE(Write({{"a", {.data = "1"}}, {"b", {.data = "2"}}}).ok());
  EXPECT_EQ(Content("b"), "2");
  EXPECT_THAT(Names(), ElementsAre(Version(), "..data", "a", "b"));
}

// After a power failure the files of a version may be there and empty.
TEST_F(AtomicWriterTest, RewritesADamagedVersion) {
  ASSERT_TRUE(Write({{"a", {.data = "content"}}}).ok());
  ASSERT_EQ(truncate((folder_ / "a").c_str(), 0), 0);
  ASSERT_TRUE(Write({{"a", {.data = "content"}}}).ok());
  EXPECT_EQ(Content("a"), "content");
}

TEST_F(AtomicWriterTest, FollowsNoSymlinkThatLiesInTheVolume) {
  const platform::TempFolder outside;
  ASSERT_TRUE(platform::WriteDurably<"test.file">(outside / "a", "precious").ok());
  ASSERT_EQ(symlink(outside.path().c_str(), (folder_ / "..data").c_str()), 0);
  ASSERT_EQ(symlink((outside / "a").c_str(), (folder_ / "a").c_str()), 0);
  ASSERT_TRUE(Write({{"a", {.data = "new"}}}).ok());
  EXPECT_EQ(*ReadFile(outside / "a"), "precious");
  EXPECT_EQ(Content("a"), "new");
}

TEST_F(AtomicWriterTest, RefusesPathsThatLeadOut) {
  // A name that nobody else has there, because what lies beside the folder is anybody's.
  const std::string name = "beside-" + folder_.path().substr(folder_.path().rfind('/') + 1);
  EXPECT_EQ(Write({{"../" + name, {.data = "x"}}}).code(), base::StatusCode::kInvalidArgument);
  EXPECT_NE(access((folder_ / "../" + name).c_str(), F_OK), 0);
}

// Otherwise each try, and each crash, would leave a copy.
TEST_F(AtomicWriterTest, FailedWritesLeaveAtMostOneCopyAndTakeNothing) {
  ASSERT_TRUE(Write({{"old", {.data = "1"}}}).ok());
  const Payload contradictory = {{"a", {.data = "2"}}, {"z", {.data = "3"}}, {"z/b", {}}};
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(Write(contradictory).ok());
  EXPECT_EQ(Content("old"), "1");
  EXPECT_THAT(Names(), SizeIs(4)) << "two versions, ..data and old";
  ASSERT_TRUE(Write({{"a", {.data = "2"}}}).ok());
  EXPECT_THAT(Names(), ElementsAre(Version(), "..data", "a"));
}

}  // namespace
}  // namespace berth::volume
