#include "base/files/private_mode.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

namespace berth::base {
namespace {

class PrivateModeTest : public ::testing::Test {
 protected:
  PrivateModeTest() {
    std::string pattern = std::filesystem::temp_directory_path() / "private-mode-XXXXXX";
    folder_ = mkdtemp(pattern.data());
  }
  ~PrivateModeTest() override { std::filesystem::remove_all(folder_); }

  std::string MakeFile(const std::string& name, mode_t mode) {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path) << "secret";
    chmod(path.c_str(), mode);
    return path;
  }
  static mode_t ModeOf(const std::string& path) {
    struct stat st{};
    EXPECT_EQ(stat(path.c_str(), &st), 0) << path;
    return st.st_mode & 07777;
  }

  std::string folder_;
};

TEST_F(PrivateModeTest, OthersLoseTheirRights) {
  for (const mode_t mode : {0666, 0644, 0640, 0604, 0755, 0611}) {
    const std::string path = MakeFile("file", mode);
    ASSERT_TRUE(TightenMode(path).ok());
    EXPECT_EQ(ModeOf(path), mode & 0700) << std::oct << mode;
  }
  chmod(folder_.c_str(), 0777);
  ASSERT_TRUE(TightenMode(folder_).ok());
  EXPECT_EQ(ModeOf(folder_), 0700U);
}

TEST_F(PrivateModeTest, WhatIsPrivateStaysAsItIs) {
  const std::string path = MakeFile("file", 0400);
  ASSERT_TRUE(TightenMode(path).ok());
  EXPECT_EQ(ModeOf(path), 0400U);
}

TEST_F(PrivateModeTest, AFolderThatAllUsersShareIsRefusedAndStaysOpen) {
  const std::string shared = folder_ + "/tmp";
  std::filesystem::create_directory(shared);
  chmod(shared.c_str(), 01777);
  const Status refused = TightenMode(shared);
  EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition) << ToString(refused);
  EXPECT_EQ(ModeOf(shared), 01777U);
}

TEST_F(PrivateModeTest, APathThatIsNotThere) {
  EXPECT_EQ(TightenMode(folder_ + "/none").code(), StatusCode::kNotFound);
  EXPECT_TRUE(TightenModeIfThere(folder_ + "/none").ok());
}

}  // namespace
}  // namespace berth::base
