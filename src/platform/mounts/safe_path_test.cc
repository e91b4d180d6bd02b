#include "platform/mounts/safe_path.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "platform/files/durable_file.h"
#include "platform/files/fake_temp_folder.h"

namespace berth::platform {
namespace {

using base::StatusCode;

class SafePathTest : public testing::Test {
 protected:
  SafePathTest() {
    EXPECT_TRUE(MakeFolders(folder_ / "volume/data").ok());
    EXPECT_TRUE(WriteDurably<"test.file">(folder_ / "secret", "x").ok());
    root_ = *OpenFolder(folder_ / "volume");
  }
  void Link(const std::string& target, const std::string& at) {
    ASSERT_EQ(symlink(target.c_str(), (folder_ / "volume/" + at).c_str()), 0);
  }
  base::StatusCode Open(std::string_view path) {
    return OpenBeneath(root_.get(), path).status().code();
  }
  const TempFolder folder_;
  base::UniqueFd root_;
};

TEST_F(SafePathTest, OpensWhatIsInside) {
  EXPECT_EQ(Open("data"), StatusCode::kOk);
  EXPECT_EQ(Open(""), StatusCode::kOk);
  EXPECT_EQ(Open("data/../data"), StatusCode::kOk);
  EXPECT_EQ(Open("none"), StatusCode::kNotFound);
}

TEST_F(SafePathTest, RefusesToLeave) {
  Link("../secret", "up");
  Link(folder_ / "secret", "absolute");
  Link("..", "parent");
  Link("/proc/self/root", "magic");
  for (const char* path : {"..", "../secret", "/etc/passwd", "up", "absolute", "parent/secret",
                           "data/../../secret", "magic"}) {
    EXPECT_EQ(Open(path), StatusCode::kPermissionDenied) << path;
  }
  EXPECT_EQ(Open(std::string_view("data\0x", 6)), StatusCode::kPermissionDenied);
}

TEST_F(SafePathTest, FollowsSymlinksThatStayInside) {
  Link("data", "same");
  EXPECT_EQ(Open("same"), StatusCode::kOk);
}

TEST_F(SafePathTest, MakesMissingFoldersWithTheMode) {
  const mode_t before = umask(0077);
  const auto made = MakeFoldersBeneath(root_.get(), "data/a/b", 02775);
  umask(before);
  ASSERT_TRUE(made.ok()) << base::ToString(made.status());
  struct stat st, by_name;
  ASSERT_EQ(fstat(made->get(), &st), 0);
  ASSERT_EQ(stat((folder_ / "volume/data/a/b").c_str(), &by_name), 0);
  EXPECT_EQ(st.st_ino, by_name.st_ino);
  EXPECT_EQ(st.st_mode & 07777, 02775u);
  EXPECT_TRUE(MakeFoldersBeneath(root_.get(), "data/a/b", 0700).ok());
  ASSERT_EQ(fstat(made->get(), &st), 0);
  EXPECT_EQ(st.st_mode & 07777, 02775u);
}

TEST_F(SafePathTest, MakesNothingOutside) {
  Link("..", "parent");
  Link("nowhere", "dangling");
  EXPECT_EQ(MakeFoldersBeneath(root_.get(), "parent/new", 0755).status().code(),
            StatusCode::kPermissionDenied);
  EXPECT_EQ(MakeFoldersBeneath(root_.get(), "../new", 0755).status().code(),
            StatusCode::kPermissionDenied);
  EXPECT_EQ(MakeFoldersBeneath(root_.get(), "/new", 0755).status().code(),
            StatusCode::kPermissionDenied);
  EXPECT_FALSE(MakeFoldersBeneath(root_.get(), "dangling/new", 0755).ok());
  EXPECT_NE(access((folder_ / "new").c_str(), F_OK), 0);
}

TEST_F(SafePathTest, AFileIsNoFolder) {
  ASSERT_TRUE(WriteDurably<"test.file">(folder_ / "volume/file", "x").ok());
  EXPECT_FALSE(MakeFoldersBeneath(root_.get(), "file/below", 0755).ok());
  Link("data", "same");
  EXPECT_FALSE(OpenFolder(folder_ / "volume/same").ok());  // a symlink in the last part
}

}  // namespace
}  // namespace berth::platform
