#include "standalone/flex_drivers.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "platform/files/fake_temp_folder.h"

namespace berth::standalone {
namespace {

TEST(FlexDriversTest, CopiesOfAnOlderBerthMoveToWherePodsSeeThem) {
  const platform::TempFolder data;
  std::filesystem::create_directories(data / "api/flexvolume-drivers/v1");
  std::ofstream(data / "api/flexvolume-drivers/v1/driver") << "#!/bin/sh\n";
  const std::string store = data / "kubelet/flexvolume/attach";
  MoveOldDriverCopies(data.path(), store);
  EXPECT_TRUE(std::filesystem::exists(store + "/v1/driver"));
  EXPECT_FALSE(std::filesystem::exists(data / "api/flexvolume-drivers"));
}

TEST(FlexDriversTest, WithoutOldCopiesNothingIsMade) {
  const platform::TempFolder data;
  MoveOldDriverCopies(data.path(), data / "kubelet/flexvolume/attach");
  EXPECT_FALSE(std::filesystem::exists(data / "kubelet"));
}

TEST(FlexDriversTest, CopiesThatCannotMoveStay) {
  const platform::TempFolder data;
  std::filesystem::create_directories(data / "api/flexvolume-drivers/v1");
  // The store has copies of its own, which nothing replaces.
  std::filesystem::create_directories(data / "kubelet/attach/v2");
  MoveOldDriverCopies(data.path(), data / "kubelet/attach");
  EXPECT_TRUE(std::filesystem::exists(data / "api/flexvolume-drivers/v1"));
  EXPECT_TRUE(std::filesystem::exists(data / "kubelet/attach/v2"));
}

}  // namespace
}  // namespace berth::standalone
