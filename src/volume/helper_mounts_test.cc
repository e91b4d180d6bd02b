#include "volume/helper_mounts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "volume/fake_host.h"

namespace berth::volume {
namespace {

using base::StatusCode;
using testing::ElementsAre;

const HelperMount kMount{.plugin = "kubernetes.io/nfs",
                         .fs_type = "nfs",
                         .source = "10.0.0.7:/scratch",
                         .target = "/k/pods/1",
                         .options = {"ro", "vers=4.2"}};

class HostHelperMountsTest : public testing::Test {
 protected:
  // The utility mounts, or only says so.
  void UtilityMounts(bool really) {
    exec_.SetAnswer([this, really](const platform::Command&) {
      if (really) mounter_.Add(kMount.target, "nfs4");
      return platform::CommandResult{};
    });
  }

  FakeMounter mounter_;
  FakeExec exec_;
  const std::unique_ptr<HelperMounts> mounts_ = NewHostHelperMounts(exec_, mounter_);
};

TEST_F(HostHelperMountsTest, RunsMountWithItsHelper) {
  UtilityMounts(true);
  EXPECT_TRUE(mounts_->Mount(kMount).ok());
  ASSERT_EQ(exec_.commands().size(), 1u);
  EXPECT_THAT(exec_.commands()[0].argv, ElementsAre("mount", "-t", "nfs", "-o", "ro,vers=4.2",
                                                    "10.0.0.7:/scratch", "/k/pods/1"));
  EXPECT_TRUE(mounts_->Unmount(kMount.plugin, platform::MountPoint(kMount.target)).ok());
  EXPECT_FALSE(mounter_.IsMounted(kMount.target));
}

TEST_F(HostHelperMountsTest, AMountThatIsThereIsLeftAlone) {
  mounter_.Add(kMount.target);
  EXPECT_EQ(mounts_->Mount(kMount).code(), StatusCode::kAlreadyExists);
  EXPECT_TRUE(exec_.commands().empty());
}

TEST_F(HostHelperMountsTest, BelievesTheMountTableAlone) {
  UtilityMounts(false);
  const base::Status status = mounts_->Mount(kMount);
  EXPECT_EQ(status.code(), StatusCode::kInternal);
  EXPECT_THAT(base::Message(status), testing::HasSubstr("nothing is mounted at '/k/pods/1'"));
}

TEST(HelperCommandTest, TakesAProgramOfItsOwnWithItsSecrets) {
  HelperMount mount = kMount;
  mount.program = {"ceph-fuse", "--keyfile", "{key}", mount.target};
  mount.secrets = {{"key", "AQBD"}};
  const platform::Command command = MakeHelperCommand(mount);
  EXPECT_EQ(command.argv, mount.program);
  EXPECT_EQ(command.secrets.size(), 1u);
  EXPECT_TRUE(command.leaves_daemon);
}

}  // namespace
}  // namespace berth::volume
