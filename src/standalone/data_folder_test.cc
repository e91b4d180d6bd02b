#include "standalone/data_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "platform/files/fake_temp_folder.h"

namespace berth::standalone {
namespace {

using testing::HasSubstr;

mode_t ModeOf(const std::string& path) {
  struct stat found = {};
  return stat(path.c_str(), &found) == 0 ? found.st_mode & 07777 : 0;
}

TEST(DataFolderTest, OnlyOneProcessUsesIt) {
  const platform::TempFolder temp;
  const std::string data = temp / "data";
  auto first = LockDataFolder(data);
  ASSERT_TRUE(first.ok()) << base::ToString(first.status());

  const auto second = LockDataFolder(data);
  EXPECT_EQ(second.status().code(), base::StatusCode::kFailedPrecondition);
  EXPECT_THAT(base::ToString(second.status()),
              HasSubstr("'" + data + "' is in use by another 'berth up' or 'berth node'"));

  first->Reset();
  EXPECT_TRUE(LockDataFolder(data).ok());
}

TEST(DataFolderTest, ItsFoldersAreClosedToOthers) {
  const platform::TempFolder temp;
  const std::string data = temp / "data";
  const auto lock = LockDataFolder(data);
  ASSERT_TRUE(lock.ok()) << base::ToString(lock.status());
  for (const char* name : {"", "/run", "/run/nodes", "/flight"}) {
    EXPECT_EQ(ModeOf(data + name), 0700) << name;
  }
  // The folder around it is closed, and drivers that run as other users reach volumes below it.
  EXPECT_EQ(ModeOf(KubeletFolder(data)), 0755);
}

TEST(DataFolderTest, VolumesInAFolderThatServesOthersAreClosedByThemselves) {
  const platform::TempFolder temp;
  const std::string data = temp / "data";
  std::filesystem::create_directory(data);
  std::ofstream(data + "/letters.txt") << "not Berth's";
  ASSERT_EQ(chmod(data.c_str(), 0755), 0);
  const auto lock = LockDataFolder(data);
  ASSERT_TRUE(lock.ok()) << base::ToString(lock.status());
  EXPECT_EQ(ModeOf(data), 0755);
  EXPECT_EQ(ModeOf(KubeletFolder(data)), 0700);
  EXPECT_EQ(ModeOf(data + "/pod-logs"), 0700);
}

TEST(DataFolderTest, WhatACrashLeftOfAKubeconfigIsRemoved) {
  const platform::TempFolder temp;
  const std::string data = temp / "data";
  std::filesystem::create_directory(data);
  const std::string torn = data + "/.block-agent.kubeconfig.tmp-a1B2c3";
  std::ofstream(torn) << "half a key";
  const auto lock = LockDataFolder(data);
  ASSERT_TRUE(lock.ok()) << base::ToString(lock.status());
  EXPECT_FALSE(std::filesystem::exists(torn));
}

}  // namespace
}  // namespace berth::standalone
