// What becomes of mounts whose FUSE server has gone, and who is told.
#include "node/volumes/dead_mounts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "node/volumes/fake_volume_world.h"

namespace berth::node {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using World = FakeVolumeWorld;

constexpr const char* kReason = "VolumeMountLost";

platform::LostFuse LostAt(const std::vector<std::string>& mount_points, uint64_t connection = 0) {
  return {.connection = connection,
          .mount_points = mount_points,
          .type = "fuse.glusterfs",
          .source = "server:/vol",
          .ended = {{.server = {.pid = 42, .name = "glusterfs"}, .wait_status = SIGKILL}}};
}

// Pod a uses claim x.
class DeadMounts : public ::testing::Test {
 protected:
  void SetUp() override {
    world_.AddBoundClaim("x");
    ASSERT_TRUE(world_.Start().ok());
    world_.manager->WantVolumes(world_.ClaimPod("a", "x"));
    ASSERT_TRUE(world_.WaitReady("uid-a"));
    ASSERT_TRUE(world_.WaitRecorded());
  }
  std::string Staged() const {
    return world_.shared->DevicePath({.device_name = World::Device("x")});
  }
  std::string Published(const std::string& pod) const {
    return world_.manager->State("uid-" + pod).published.at("data").path;
  }
  FakeMounter& mounter() { return world_.host->fake_mounter(); }
  platform::LostFuse Lost(const std::vector<std::string>& mount_points) {
    const auto table = *world_.host->mounter().List();
    const platform::MountEntry* mount = platform::FindMount(table, mount_points.front());
    return LostAt(mount_points, platform::ToFuseConnection(mount->major, mount->minor));
  }
  FakeEvents& events() { return world_.host->fake_events(); }

  World world_{{}};
};

TEST_F(DeadMounts, ADeadStagedMountIsReplacedForTheNextPodAndTheOldOneKeepsIts) {
  mounter().Kill(Staged());
  mounter().Kill(Published("a"));
  world_.manager->WantVolumes(world_.ClaimPod("b", "x"));
  ASSERT_TRUE(world_.WaitReady("uid-b"));
  EXPECT_EQ(world_.shared->CallCount("MountDevice"), 2U);
  EXPECT_TRUE(mounter().IsMounted(Staged()));
  EXPECT_EQ(world_.shared->CallCount("SetUp uid-a"), 1U);
  EXPECT_TRUE(mounter().IsMounted(Published("a")));
  EXPECT_TRUE(world_.manager->State("uid-a").ready);
  EXPECT_EQ(world_.shared->CallCount("UnmountDevice"), 0U) << "pod a has it still";
}

TEST_F(DeadMounts, AreReplacedAfterARestartToo) {
  mounter().Kill(Staged());
  world_.Restart();
  world_.manager->WantVolumes(world_.ClaimPod("a", "x"));
  world_.manager->WantVolumes(world_.ClaimPod("b", "x"));
  ASSERT_TRUE(world_.WaitReady("uid-b"));
  EXPECT_EQ(world_.shared->CallCount("MountDevice"), 2U);
  EXPECT_EQ(world_.shared->CallCount("SetUp uid-a"), 1U);
}

TEST_F(DeadMounts, OfAPodThatGoesAreOutOfTheDriversWay) {
  const std::string published = Published("a");
  const std::string staged = Staged();
  mounter().Kill(published);
  mounter().Kill(staged);
  // A driver that looks at what it is to unmount would fail.
  bool met = false;
  world_.shared->SetObserver([&](const std::string& call) {
    if (call.starts_with("TearDown") && mounter().IsMounted(published)) met = true;
    if (call.starts_with("UnmountDevice") && mounter().IsMounted(staged)) met = true;
  });
  world_.manager->ReleaseVolumes("uid-a");
  ASSERT_TRUE(world_.WaitReleased("uid-a"));
  ASSERT_TRUE(world_.WaitForgotten());
  EXPECT_FALSE(met);
  EXPECT_EQ(world_.shared->CallCount("TearDown"), 1U);
  EXPECT_EQ(world_.shared->CallCount("UnmountDevice"), 1U);
}

TEST_F(DeadMounts, ADeadStrangerIsLeftToWhoPutItThere) {
  ASSERT_TRUE(
      world_.host->mounter().Mount({.source = "x", .target = Staged(), .fs_type = "fuse"}).ok());
  mounter().Kill(Staged());
  world_.manager->WantVolumes(world_.ClaimPod("b", "x"));
  EXPECT_TRUE(world_.WaitReason("uid-b", "another mount (fuse from 'x') stands at"));
  EXPECT_TRUE(mounter().IsMounted(Staged()));
}

TEST_F(DeadMounts, EachPodThatUsesOneIsToldWhyAndWhatToDo) {
  world_.AddBoundClaim("y");
  world_.manager->WantVolumes(world_.ClaimPod("b", "x"));
  world_.manager->WantVolumes(world_.ClaimPod("c", "y"));
  ASSERT_TRUE(world_.WaitReady("uid-b"));
  ASSERT_TRUE(world_.WaitReady("uid-c"));
  // Binds of one mount have its connection; here each is one of its own.
  for (const char* pod : {"a", "b"}) {
    world_.host->Lose(Lost({Published(pod)}));
    EXPECT_TRUE(events().WaitFor({fmt::format("Pod {} Warning {}", pod, kReason), "volume 'data'",
                                  "fuse.glusterfs from 'server:/vol'",
                                  "process 42 'glusterfs' was killed by signal 9 (SIGKILL)",
                                  "until the pod is deleted and created again"}));
  }
  EXPECT_EQ(events().Count(kReason), 2U);
  EXPECT_THAT(world_.metrics.RenderText(), ::testing::HasSubstr("berth_fuse_servers_lost_total"));
}

TEST_F(DeadMounts, AStrangersDeathIsNoneOfThePods) {
  // What the disk has is what the next manager knows.
  world_.Restart();
  world_.manager->WantVolumes(world_.ClaimPod("a", "x"));
  ASSERT_TRUE(world_.WaitReady("uid-a"));
  ASSERT_TRUE(world_.host->mounter()
                  .Mount({.source = "x", .target = Published("a"), .fs_type = "fuse"})
                  .ok());
  world_.host->Lose(Lost({Published("a")}));
  EXPECT_EQ(events().Count(kReason), 0U);
}

TEST_F(DeadMounts, APodThatGoesNeedNotBeTold) {
  const std::string published = Published("a");
  world_.shared->Hang("TearDown", "uid-a");
  world_.manager->ReleaseVolumes("uid-a");
  ASSERT_TRUE(world_.shared->WaitForCalls("TearDown", 1));
  world_.host->Lose(Lost({published}));
  world_.shared->Unhang();
  ASSERT_TRUE(world_.WaitReleased("uid-a"));
  EXPECT_EQ(events().Count(kReason), 0U);
}

TEST(DescribeLostTest, NamesTheContainerAndThePod) {
  platform::LostFuse lost = LostAt({"/x"});
  lost.ended[0].server.container = "abc";
  lost.ended[0].server.pod_uid = "uid-1";
  lost.ended[0].wait_status.reset();
  const auto unknown = [](const std::string&) { return ""; };
  EXPECT_THAT(
      DescribeLostMount(
          lost, [](const std::string& uid) { return uid == "uid-1" ? "kube-system/mounter" : ""; }),
      HasSubstr("process 42 'glusterfs' (container abc of pod 'kube-system/mounter') ended "
                "(how is not known)"));
  EXPECT_THAT(DescribeLostMount(lost, unknown), HasSubstr("(container abc of pod with UID uid-1)"));
  lost.ended.clear();
  const std::string nobody = DescribeLostMount(lost, unknown);
  EXPECT_THAT(nobody, HasSubstr("nobody serves it"));
  EXPECT_THAT(nobody, Not(HasSubstr("process")));
}

}  // namespace
}  // namespace berth::node
