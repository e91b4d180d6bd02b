#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/assert_ok.h"
#include "base/unique_fd.h"
#include "platform/devices/device_users.h"
#include "platform/devices/loop_device.h"
#include "platform/files/fake_temp_folder.h"

namespace berth::platform {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class DeviceUsersTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto loop = AttachLoop(folder_.SparseFile("image", 16 << 20), {});
    ASSERT_OK(loop);
    loop_ = *loop;
    struct stat st;
    ASSERT_EQ(stat(loop_.path.c_str(), &st), 0);
    number_ = st.st_rdev;
  }
  void TearDown() override { EXPECT_TRUE(DetachLoop(loop_).ok()); }

  const TempFolder folder_;
  LoopDevice loop_;
  dev_t number_ = 0;
};

TEST_F(DeviceUsersTest, AProcessThatHasTheDeviceOpenIsFoundByWhicheverPath) {
  const std::string other = folder_ / "other-name";
  ASSERT_EQ(mknod(other.c_str(), S_IFBLK | 0600, number_), 0);
  const base::UniqueFd fd(open(other.c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(fd.valid());
  const auto users = FindDeviceUsers(number_);
  ASSERT_OK(users);
  EXPECT_THAT(*users, testing::Contains(getpid()));
  EXPECT_THAT(DescribeProcesses({getpid()}), HasSubstr(fmt::format("process {}", getpid())));
}

TEST_F(DeviceUsersTest, AClosedDeviceHasNoUserOfThisProcess) {
  {
    const base::UniqueFd fd(open(loop_.path.c_str(), O_RDONLY | O_CLOEXEC));
  }
  const auto users = FindDeviceUsers(number_);
  ASSERT_OK(users);
  EXPECT_THAT(*users, testing::Not(testing::Contains(getpid())));
}

}  // namespace
}  // namespace berth::platform
