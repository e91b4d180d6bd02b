#include "platform/devices/device_file.h"

#include <gtest/gtest.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>

#include "platform/files/fake_temp_folder.h"

namespace berth::platform {
namespace {

TEST(DeviceFile, TellsDevicesFromFilesThroughSymlinks) {
  const TempFolder folder;
  const std::string file = folder.path() + "/file";
  const std::string link = folder.path() + "/link";
  std::ofstream(file) << "x";
  ASSERT_EQ(symlink("/dev/null", link.c_str()), 0);
  const auto found = LookAtDevices({file, link, folder.path() + "/absent"});
  ASSERT_TRUE(found.ok()) << found.status();
  ASSERT_EQ(found->size(), 3u);
  EXPECT_TRUE((*found)[0].present);
  EXPECT_FALSE((*found)[0].block);
  EXPECT_TRUE((*found)[1].present);
  EXPECT_FALSE((*found)[1].block);
  EXPECT_EQ((*found)[1].number, makedev(1, 3));
  EXPECT_FALSE((*found)[2].present);
}

TEST(DeviceFile, LooksAtMoreThanOneChildCanTell) {
  const TempFolder folder;
  std::vector<std::string> paths(2000, folder.path() + "/absent");
  paths.push_back("/dev/null");
  const auto found = LookAtDevices(paths);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_FALSE(found->front().present);
  EXPECT_TRUE(found->back().present);
}

TEST(DeviceFile, WhatIsNoBlockDeviceHasNoSize) {
  const TempFolder folder;
  uint64_t bytes = 7;
  EXPECT_EQ(ReadBlockDeviceSize("/dev/null", bytes), ENOTTY);
  EXPECT_EQ(ReadBlockDeviceSize((folder.path() + "/absent").c_str(), bytes), ENOENT);
  EXPECT_EQ(bytes, 7u);
}

}  // namespace
}  // namespace berth::platform
