#include "volume/flex/driver_install.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "base/fake_faults.h"
#include "platform/files/durable_file.h"
#include "platform/files/fake_temp_folder.h"

namespace berth::volume {
namespace {

using base::StatusCode;
using testing::ElementsAre;

class DriverInstallTest : public testing::Test {
 protected:
  std::string Read() const {
    return platform::ReadFile(drivers_ + "/berth.dev~block/block").value_or("(none)");
  }
  ino_t Inode() const {
    struct stat info{};
    return stat((drivers_ + "/berth.dev~block/block").c_str(), &info) == 0 ? info.st_ino : 0;
  }

  platform::TempFolder folder_;
  const std::string drivers_ = folder_ / "deep/drivers";
};

TEST_F(DriverInstallTest, PutsOneFileInPlaceAndLeavesNothingBeside) {
  ASSERT_TRUE(InstallDriverFile(drivers_, "berth.dev/block", "one").ok());
  EXPECT_EQ(Read(), "one");
  EXPECT_THAT(*platform::ListFolder(drivers_),
              ElementsAre(".berth-install.lock", "berth.dev~block"));
  EXPECT_THAT(*platform::ListFolder(drivers_ + "/berth.dev~block"), ElementsAre("block"));
  struct stat info{};
  ASSERT_EQ(stat((drivers_ + "/berth.dev~block/block").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0755u);
}

TEST_F(DriverInstallTest, TheSameDriverAgainIsANewFile) {
  ASSERT_TRUE(InstallDriverFile(drivers_, "berth.dev/block", "one").ok());
  // Held, so that its inode is not given again.
  const std::ifstream held(drivers_ + "/berth.dev~block/block");
  const ino_t before = Inode();
  ASSERT_TRUE(InstallDriverFile(drivers_, "berth.dev/block", "one").ok());
  EXPECT_NE(Inode(), before);
}

TEST_F(DriverInstallTest, ACrashLeavesTheOldOneWhole) {
  ASSERT_TRUE(InstallDriverFile(drivers_, "berth.dev/block", "one").ok());
  {
    const base::FakeFaults faults("volume.flex_install.place.before=error");
    EXPECT_FALSE(InstallDriverFile(drivers_, "berth.dev/block", "two").ok());
  }
  EXPECT_EQ(Read(), "one");
  ASSERT_TRUE(InstallDriverFile(drivers_, "berth.dev/block", "two").ok());
  EXPECT_EQ(Read(), "two");
}

TEST_F(DriverInstallTest, RefusesWhatIsNoDriver) {
  EXPECT_EQ(InstallDriverFile(drivers_, "../block", "x").code(), StatusCode::kInvalidArgument);
  std::filesystem::create_directories(drivers_);
  std::ofstream(drivers_ + "/berth.dev~block") << "a file";
  EXPECT_EQ(InstallDriverFile(drivers_, "berth.dev/block", "x").code(),
            StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace berth::volume
